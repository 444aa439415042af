"""The baseline gives the slow reference's numbers, and counts what it runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from pipeline.bench.naive import NaiveBaseline, PrefixPair
from pipeline.bench.work import Work
from pipeline.engines.protocol import LossRequest, PositionRequest, SampleRequest
from pipeline.losses import WINDOW, weighted_loss
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import VOCABULARY, save_checkpoint

END = 0
PROMPT = np.random.default_rng(1).integers(1, VOCABULARY, 7, dtype=np.int32)
X = np.random.default_rng(2).integers(1, VOCABULARY, 12, dtype=np.int32)
NOTHING = np.zeros(0, dtype=np.int32)
PAIRS = [
    PrefixPair(call_ids=PROMPT[:3], plus_ids=PROMPT[:5]),
    PrefixPair(call_ids=PROMPT[1:5], plus_ids=PROMPT[1:7]),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = save_checkpoint(tmp_path_factory.mktemp("gptj"), "gptj")
    loaded: Any = AutoModelForCausalLM.from_pretrained(directory)
    return loaded.eval()


@pytest.fixture(scope="module")
def reference(model: Any) -> SlowReference:
    return SlowReference(model, bos_id=END, eos_id=END)


@pytest.fixture
def baseline(model: Any) -> NaiveBaseline:
    return NaiveBaseline(model, bos_id=END)


def test_p_equals_the_slow_reference(baseline: NaiveBaseline, reference: SlowReference) -> None:
    request = PositionRequest(prompt_ids=PROMPT, x_ids=X)
    p_n = baseline.positions(PROMPT, X, 9)
    assert baseline.work == Work(tokens=20, rows=20, pairs=210)
    expected_n = np.exp(reference.position_logprobs(request, [9])[:, 0])
    assert np.abs(p_n - expected_n).max() < 1e-5


@pytest.mark.parametrize("position", [0, 5, 10])  # the last window is cut by the end
def test_l_equals_the_slow_reference(
    baseline: NaiveBaseline, reference: SlowReference, position: int
) -> None:
    losses_C3 = baseline.losses(X, position, PAIRS)
    # Two sequences each of 13, 13 + 4 and 13 + 6 tokens, padded to the longest, all with logits.
    assert baseline.work.tokens == baseline.work.rows == 2 * (13 + 17 + 19)
    for pair, losses_3 in zip(PAIRS, losses_C3, strict=True):
        for z_ids, loss in zip((NOTHING, pair.call_ids, pair.plus_ids), losses_3, strict=True):
            at = np.array([position], dtype=np.int32)
            request = LossRequest(z_ids=z_ids, x_ids=X, positions=at)
            logprobs_QW = reference.window_logprobs(request, WINDOW).astype(np.float32)
            assert loss == pytest.approx(weighted_loss(logprobs_QW)[0], abs=1e-4)


def test_greedy_s_equals_the_slow_reference(
    baseline: NaiveBaseline, reference: SlowReference
) -> None:
    request = SampleRequest(
        prompt_ids=PROMPT, x_ids=X, positions=np.array([4], dtype=np.int32), open_ids=(9,),
        seeds_Km=np.zeros((1, 1), dtype=np.uint64),
    )  # fmt: skip
    prefix = np.concatenate([PROMPT, X[:4], [9]]).astype(np.int32)
    [sample] = baseline.samples(prefix, m=1, max_new_tokens=6, greedy=True)
    [expected] = reference.greedy(request, stop_ids=frozenset(), max_new_tokens=6)
    assert tuple(sample[: len(expected.token_ids)]) == expected.token_ids and len(sample) == 6


def test_s_repeats_the_prompt_for_every_sample(baseline: NaiveBaseline) -> None:
    samples = baseline.samples(PROMPT, m=3, max_new_tokens=4)
    assert [len(sample) for sample in samples] == [4, 4, 4]
    # Three prompts of 8 tokens and three more steps; logits of the last token of each.
    assert baseline.work == Work(tokens=3 * (8 + 3), rows=3 * 4, pairs=3 * (36 + 9 + 10 + 11))
