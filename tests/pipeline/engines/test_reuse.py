"""What TorchEngine does not compute twice, and that it changes no number."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.engines.causal_lm import Prefix
from pipeline.engines.protocol import PositionRequest, Sample, SampleRequest, SamplingParams
from pipeline.engines.torch_engine import TorchEngine
from pipeline.tokens import TokenCodec
from tests.pipeline.engines.asked import (
    LOSSES,
    SAMPLES,
    STOP_IDS,
    WIDTH,
    every,
    ids,
    sampling,
)
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import save_checkpoint
from tools.base import ConfigError

HEADER = ids(20, seed=5)
PARAMS = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=10)


def after_header(n: int, *positions: int, rest: int = 3) -> tuple[PositionRequest, SampleRequest]:
    """P and S of a text whose prompt begins with HEADER."""
    prompt_ids = np.concatenate([HEADER, ids(rest, seed=n)])
    request = replace(sampling(n, *positions), prompt_ids=prompt_ids, header_len=len(HEADER))
    position = PositionRequest(prompt_ids=prompt_ids, x_ids=request.x_ids, header_len=len(HEADER))
    return position, request


TEXTS = [after_header(30, 0, 7, 29), after_header(9, 3, rest=6), after_header(25, 11, 24)]


@pytest.fixture(params=["gptj", "gpt2", "llama"])
def packed(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> TorchEngine:
    return TorchEngine.load(str(checkpoints[request.param]))


def test_positions_after_a_shared_beginning_equal_the_reference(
    engine: TorchEngine, reference: SlowReference
) -> None:
    requests = [position for position, _ in TEXTS]
    for _ in range(2):  # the second time the beginning is there already
        for request, logprobs_nA in zip(
            requests, every(engine.position_logprobs(requests, [257, 3])), strict=True
        ):
            np.testing.assert_allclose(
                logprobs_nA, reference.position_logprobs(request, [257, 3]), atol=1e-4
            )


def test_samples_after_a_shared_beginning_equal_the_reference(
    engine: TorchEngine, reference: SlowReference
) -> None:
    requests = [sample for _, sample in TEXTS]
    answers = every(engine.sample(requests, PARAMS))
    for request, samples_Km in zip(requests, answers, strict=True):
        assert samples_Km == reference.draw(request, PARAMS)


def test_samples_go_on_from_what_positions_kept(packed: TorchEngine) -> None:
    positions, requests = [p for p, _ in TEXTS], [s for _, s in TEXTS]
    alone = every(packed.sample(requests, PARAMS))
    before = packed.usage()
    every(packed.position_logprobs(positions, [3]))
    every(packed.window_logprobs(LOSSES, WIDTH))  # comes between P and S
    between = packed.usage()
    assert every(packed.sample(requests, PARAMS)) == alone
    after = packed.usage()
    # Begin-of-text and HEADER were run once, in the first sample(); its prefixes are not again.
    assert between.position_tokens - before.position_tokens == (3 + 29) + (6 + 8) + (3 + 24)
    prefixes = (3 + 29) + (6 + 3) + (3 + 24)
    first_time = before.sample_tokens
    assert after.sample_tokens - between.sample_tokens == first_time - prefixes - 1 - len(HEADER)


def test_what_was_kept_is_gone_after_the_samples(packed: TorchEngine) -> None:
    positions, requests = [p for p, _ in TEXTS], [s for _, s in TEXTS]
    every(packed.position_logprobs(positions, [3]))
    every(packed.sample(requests, PARAMS))
    first = packed.usage().sample_tokens
    every(packed.sample(requests, PARAMS))
    assert packed.usage().sample_tokens - first == first + (3 + 29) + (6 + 3) + (3 + 24)


def test_no_more_is_kept_than_the_limit(checkpoints: dict[str, Path]) -> None:
    # Texts of 33, 15 and 28 tokens are left after the header: two fit into 60.
    engine = TorchEngine.load(str(checkpoints["gptj"]), kept_tokens=60)
    unlimited = TorchEngine.load(str(checkpoints["gptj"]))
    positions, requests = [p for p, _ in TEXTS], [s for _, s in TEXTS]
    for one in (engine, unlimited):
        every(one.position_logprobs(positions, [3]))
    assert every(engine.sample(requests, PARAMS)) == every(unlimited.sample(requests, PARAMS))
    assert engine.usage().sample_tokens == unlimited.usage().sample_tokens + 3 + 24


def test_bytes_do_not_depend_on_what_an_engine_did_before(checkpoints: dict[str, Path]) -> None:
    path = str(checkpoints["gptj"])
    fresh, used = TorchEngine.load(path), TorchEngine.load(path)
    every(used.position_logprobs([after_header(12, 3)[0]], [9]))  # knows the header now
    every(used.window_logprobs(LOSSES, WIDTH))
    positions, requests = [p for p, _ in TEXTS], [s for _, s in TEXTS]
    for _ in range(2):
        p_fresh = every(fresh.position_logprobs(positions, [3]))
        p_used = every(used.position_logprobs(positions, [3]))
        assert [a.tobytes() for a in p_fresh] == [a.tobytes() for a in p_used]
        assert every(fresh.sample(requests, PARAMS)) == every(used.sample(requests, PARAMS))


def test_more_beginnings_than_are_kept_change_no_number(
    engine: TorchEngine, reference: SlowReference
) -> None:
    requests = [
        PositionRequest(prompt_ids=ids(10, seed=s), x_ids=ids(5), header_len=7) for s in range(20)
    ]
    for _ in range(2):
        for request, logprobs_nA in zip(
            requests, every(engine.position_logprobs(requests, [3])), strict=True
        ):
            expected_nA = reference.position_logprobs(request, [3])
            np.testing.assert_allclose(logprobs_nA, expected_nA, atol=1e-4)


def test_a_header_that_is_all_of_the_prompt_leaves_its_last_token(
    engine: TorchEngine, reference: SlowReference
) -> None:
    prompt_ids = ids(6)
    for header_len in (5, 6, 9):
        position = PositionRequest(prompt_ids=prompt_ids, x_ids=ids(4), header_len=header_len)
        [logprobs_nA] = every(engine.position_logprobs([position], [3]))
        expected_nA = reference.position_logprobs(position, [3])
        np.testing.assert_allclose(logprobs_nA, expected_nA, atol=1e-4)
        request = replace(sampling(4, 0, 3), prompt_ids=prompt_ids, header_len=header_len)
        assert every(engine.sample([request], PARAMS)) == [reference.draw(request, PARAMS)]


def test_samples_in_half_precision_go_on_from_the_kept_like_from_the_whole(
    checkpoints: dict[str, Path],
) -> None:
    """Branches and passes round differently, but by no more than bfloat16 does."""
    lm = TorchEngine.load(str(checkpoints["gptj"]), dtype="bfloat16")._lm
    whole, [prefix] = ids(31), [ids(31)[:30]]
    _, kept = lm.hidden_rows([prefix], [np.zeros(0, dtype=np.int64)], keep=True)
    assert kept is not None
    with torch.inference_mode():
        branch = lm.decoder([Prefix(tokens=prefix, kept=kept[0])], [(0, 30)])
        stepped = lm.head.logits(branch.step(whole[30:].astype(np.int64), np.array([0])))
        h_RD, _ = lm.hidden_rows([whole], [np.array([30])])
        expected = lm.head.logits(h_RD)
    assert float((stepped - expected).abs().max()) < 0.02 * float(expected.abs().max())


def test_samples_that_begin_alike_are_one_branch(packed: TorchEngine) -> None:
    # The same seed four times: the same sample four times, at the cost of one.
    request = sampling(12, 5, m=1)
    [[[alone]]] = every(packed.sample([request], PARAMS))
    cost = packed.usage()
    fourfold = replace(request, seeds_Km=np.repeat(request.seeds_Km, 4, axis=1))
    assert every(packed.sample([fourfold], PARAMS)) == [[[alone] * 4]]
    assert packed.usage().sample_tokens == 2 * cost.sample_tokens
    assert packed.usage().head_rows == 2 * cost.head_rows == 2 * len(alone.token_ids)


def below_p(text: bytes) -> bool:
    """Stands for a rule of calls: half of all tokens break it."""
    return all(byte < ord("p") for byte in text)


def test_a_sample_that_cannot_become_a_call_ends_there(
    packed: TorchEngine, checkpoints: dict[str, Path]
) -> None:
    codec = TokenCodec.load(str(checkpoints["gptj"]))

    def cut(sample: Sample) -> Sample:
        for length, token in enumerate(sample.token_ids, start=1):
            written = b"".join(codec.token_bytes(sample.token_ids[:length]))
            if token not in codec.close_ids and not below_p(written):
                return Sample(sample.token_ids[:length], ended=False)
        return sample

    request = sampling(12, 5, 9, m=20)
    params = SamplingParams(stop_ids=codec.close_ids, max_new_tokens=6)
    [free] = every(packed.sample([request], params))
    [stopped] = every(packed.sample([replace(request, may_be_call=below_p)], params))
    assert stopped == [[cut(sample) for sample in samples] for samples in free]
    lengths = {len(sample.token_ids) for samples in stopped for sample in samples}
    assert 1 in lengths and len(lengths) > 2


def test_other_weights_answer_like_an_engine_of_their_own(
    checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    path = checkpoints["gptj"]
    engine = TorchEngine.load(str(path))
    other = save_checkpoint(tmp_path / "other", "gptj", seed=8)
    fresh = TorchEngine.load(str(other))
    positions = [position for position, _ in TEXTS]
    old = every(engine.position_logprobs(positions, [3]))
    engine.load_weights(str(other))
    new = every(engine.position_logprobs(positions, [3]))
    expected = every(fresh.position_logprobs(positions, [3]))
    assert [a.tobytes() for a in new] == [a.tobytes() for a in expected]
    assert not np.allclose(new[0], old[0], atol=1e-2)
    assert every(engine.sample(SAMPLES, PARAMS)) == every(fresh.sample(SAMPLES, PARAMS))
    assert engine.info == fresh.info != TorchEngine.load(str(path)).info


def test_weights_of_another_vocabulary_are_refused(
    checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    engine = TorchEngine.load(str(checkpoints["gptj"]))
    before = engine.info
    other = save_checkpoint(tmp_path / "other", "gptj", context=64)
    with pytest.raises(ConfigError, match=r"its n_positions is 64, expected 96"):
        engine.load_weights(str(other))
    assert engine.info == before
