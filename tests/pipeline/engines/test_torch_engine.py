"""What is TorchEngine's own, beside what every engine must do (test_torch_conformance.py)."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.engines.protocol import (
    PositionRequest,
    SampleRequest,
    SamplingParams,
)
from pipeline.engines.torch_engine import TorchEngine
from pipeline.tokens import TokenCodec
from tests.pipeline.engines.asked import (
    LOSSES,
    SAMPLES,
    STOP_IDS,
    WIDTH,
    at,
    every,
    ids,
    losses,
    sampling,
)
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ContractError

POSITIONS = [
    PositionRequest(prompt_ids=ids(7), x_ids=ids(1)),
    PositionRequest(prompt_ids=ids(3), x_ids=ids(30)),
    PositionRequest(prompt_ids=ids(12), x_ids=ids(9)),
    PositionRequest(prompt_ids=ids(7), x_ids=ids(30)),
]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (1.7, 0.8)])
def test_drawn_samples_equal_token_by_token_sampling(
    engine: TorchEngine, reference: SlowReference, temperature: float, top_p: float
) -> None:
    params = SamplingParams(
        stop_ids=STOP_IDS, max_new_tokens=12, temperature=temperature, top_p=top_p
    )
    answers = every(engine.sample(SAMPLES, params))
    lengths = {len(s.token_ids) for a in answers for samples_m in a for s in samples_m}
    assert len(lengths) > 4  # rows left at different times
    for request, samples_Km in zip(SAMPLES, answers, strict=True):
        assert samples_Km == reference.draw(request, params)


def test_more_samples_than_rows_of_a_pass(engine: TorchEngine) -> None:
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=6)
    [[first, second]] = every(engine.sample([sampling(9, 3, 8, m=80)], params))
    request = sampling(9, 3, 8, m=80)
    [[alone]] = every(engine.sample(
        [
            SampleRequest(
                prompt_ids=request.prompt_ids, x_ids=request.x_ids, positions=at(8),
                open_ids=request.open_ids, seeds_Km=request.seeds_Km[1:, 70:],
            )
        ],
        params,
    ))  # fmt: skip
    assert (len(first), len(second)) == (80, 80)
    assert second[70:] == alone
    assert len(set(first)) > 40


def test_an_opening_of_several_tokens_is_fed_before_the_first_draw(
    engine: TorchEngine, reference: SlowReference
) -> None:
    request = sampling(9, 3, 8)
    request = SampleRequest(
        prompt_ids=request.prompt_ids, x_ids=request.x_ids, positions=request.positions,
        open_ids=(33, 44), seeds_Km=request.seeds_Km,
    )  # fmt: skip
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=5)
    assert every(engine.sample([request], params)) == [reference.draw(request, params)]


@pytest.mark.parametrize("token_budget", [64, 100, 10_000])
def test_the_token_budget_changes_no_number(
    checkpoint: Path, engine: TorchEngine, token_budget: int
) -> None:
    other = TorchEngine.load(str(checkpoint), token_budget=token_budget)
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=8)
    for ours, theirs in (
        (
            every(engine.position_logprobs(POSITIONS, [3])),
            every(other.position_logprobs(POSITIONS, [3])),
        ),
        (every(engine.window_logprobs(LOSSES, WIDTH)), every(other.window_logprobs(LOSSES, WIDTH))),
    ):
        for ours_, theirs_ in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(ours_, theirs_, atol=1e-5)
    assert every(engine.sample(SAMPLES, params)) == every(other.sample(SAMPLES, params))


def test_the_same_call_gives_the_same_bytes(engine: TorchEngine) -> None:
    first = [a.tobytes() for a in every(engine.window_logprobs(LOSSES, WIDTH))]
    every(engine.position_logprobs(POSITIONS, [3]))
    assert first == [a.tobytes() for a in every(engine.window_logprobs(LOSSES, WIDTH))]


@pytest.mark.parametrize("architecture", ["gptj", "gpt2", "llama"])
def test_usage_counts_tokens_once_and_only_needed_rows(
    checkpoints: dict[str, Path], architecture: str
) -> None:
    engine = TorchEngine.load(str(checkpoints[architecture]))
    assert engine.usage() == (0, 0, 0, 0, 0)
    # begin-of-text + prompt + all tokens of x but the last; one row for each token of x
    every(engine.position_logprobs(POSITIONS[:2], [3]))
    assert engine.usage() == (1 + 7 + 0 + 1 + 3 + 29, 0, 0, 0, 1 + 30)
    # Windows of 5 at 0 and 12 of 25 tokens: the pass ends before token 16, and there are 10 rows.
    every(engine.window_logprobs([losses(9, 25, 0, 12)], WIDTH))
    assert engine.usage() == (41, 0, 1 + 9 + 16, 0, 31 + 10)
    # The same again in two requests is one pass; windows at 0 and 3 share two rows.
    every(engine.window_logprobs([losses(9, 25, 0), losses(9, 25, 3)], WIDTH))
    assert engine.usage() == (41, 0, 26 + 1 + 9 + 7, 0, 41 + 8)
    # The prefix and " [" once, then a token for each of two samples that begin differently.
    params = SamplingParams(stop_ids=frozenset(), max_new_tokens=2)
    [[[first, second]]] = every(engine.sample([sampling(9, 4, m=2)], params))
    assert first.token_ids[0] != second.token_ids[0]
    assert engine.usage() == (41, 1 + 6 + 4 + 1 + 2, 43, 0, 49 + 1 + 2)


def test_an_architecture_without_a_packed_form_is_padded_and_says_so(
    checkpoints: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    engine = TorchEngine.load(str(checkpoints["gpt_neox"]))
    assert "GPTNeoXForCausalLM runs through transformers, which is slower" in caplog.text
    assert engine.kept_tokens == 0
    every(engine.position_logprobs(POSITIONS[:2], [3]))
    # Two rows of the longer text, 33 tokens; the other has 8.
    assert engine.usage() == (66, 0, 0, 25, 31)


def test_a_prompt_fills_the_context_to_the_last_token(engine: TorchEngine) -> None:
    # begin-of-text + 50 + all tokens of x but the last
    fits = PositionRequest(prompt_ids=ids(50), x_ids=ids(CONTEXT - 50))
    assert every(engine.position_logprobs([fits], [3]))[0].shape == (CONTEXT - 50, 1)
    longer = PositionRequest(prompt_ids=ids(50), x_ids=ids(CONTEXT - 49))
    with pytest.raises(ContractError, match="longer than the context: 97 tokens, expected at most"):
        every(engine.position_logprobs([fits, longer], [3]))


def test_info_says_what_answers(engine: TorchEngine, codec: TokenCodec) -> None:
    assert engine.info.name == "torch"
    assert engine.info.dtype == "float32"
    assert engine.info.max_len == CONTEXT
    assert engine.info.vocab_size == VOCABULARY
    assert engine.info.weights_id.startswith("blake2b:")
    assert codec.open_ids[0] < VOCABULARY


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_close(checkpoint: Path, engine: TorchEngine, dtype: str) -> None:
    half = TorchEngine.load(str(checkpoint), dtype=dtype)
    assert half.info.dtype == dtype
    exact = np.concatenate(every(engine.position_logprobs(POSITIONS, [3, 257])))
    rounded = np.concatenate(every(half.position_logprobs(POSITIONS, [3, 257])))
    assert rounded.dtype == np.float32
    assert 0 < np.abs(exact - rounded).max() < 0.3
    assert np.abs(exact - rounded).mean() < 0.03
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=4)
    assert [len(a) for a in every(half.sample(SAMPLES, params))] == [3, 1, 0, 4]
