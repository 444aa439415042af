"""What every engine must do, written once: subclasses say which engine.

`reference` is the slow reference for the checkpoint the engine has; `other` is a checkpoint of
the same model with other weights, `foreign` one of a model with another context. Prompts are
random tokens: a wrong row or token is far off.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from pipeline.engines.checkpoint import weights_id
from pipeline.engines.protocol import (
    LMEngine,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.tokens import TokenCodec
from tests.pipeline.engines.asked import LOSSES, STOP_IDS, WIDTH, at, ids, losses, sampling
from tests.pipeline.engines.asked import SAMPLES as _SAMPLES
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ConfigError, ContractError

TOKENS = [257, 3, VOCABULARY - 1]
FLOOR = 0.05
UNICODE = "na\u00efve caf\u00e9s \u2014 \u65e5\u672c\u8a9e, \U0001f600 and more [1] text"


def asking(prompt: int, n: int, floor: float = 0.0) -> PositionRequest:
    return PositionRequest(
        prompt_ids=ids(prompt), x_ids=ids(n), header_len=prompt // 2, floor=floor
    )


POSITIONS = [asking(7, 1), asking(3, 30), asking(12, 9), asking(7, 30), asking(40, 40)]
# Half of each prompt is the same for all texts.
SAMPLES = [replace(sample, header_len=len(sample.prompt_ids) // 2) for sample in _SAMPLES]


def check_positions(
    engine: LMEngine, reference: SlowReference, requests: list[PositionRequest]
) -> None:
    for request, logprobs_nA in zip(
        requests, engine.position_logprobs(requests, TOKENS), strict=True
    ):
        assert logprobs_nA is not None and logprobs_nA.dtype == np.float32
        expected_nA = reference.position_logprobs(request, TOKENS)
        matters_nA = (
            expected_nA > np.log(request.floor) if request.floor else np.isfinite(expected_nA)
        )
        np.testing.assert_allclose(logprobs_nA[matters_nA], expected_nA[matters_nA], atol=1e-4)
        other = ~matters_nA & np.isfinite(logprobs_nA)
        np.testing.assert_allclose(logprobs_nA[other], expected_nA[other], atol=1e-4)
        assert logprobs_nA.shape == expected_nA.shape


def check_losses(engine: LMEngine, reference: SlowReference, requests: list[LossRequest]) -> None:
    for request, logprobs_QW in zip(requests, engine.window_logprobs(requests, WIDTH), strict=True):
        assert logprobs_QW is not None and logprobs_QW.dtype == np.float32
        assert logprobs_QW.shape == (len(request.positions), WIDTH)
        np.testing.assert_allclose(
            logprobs_QW, reference.window_logprobs(request, WIDTH), atol=1e-4
        )


def check_greedy(engine: LMEngine, reference: SlowReference) -> None:
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=12, temperature=0.0)
    for request, samples_Km in zip(SAMPLES, engine.sample(SAMPLES, params), strict=True):
        expected = reference.greedy(request, stop_ids=STOP_IDS, max_new_tokens=12)
        assert samples_Km == [[sample] * request.seeds_Km.shape[1] for sample in expected]


class Conformance:
    """P, S and L of any engine. Needs the fixtures engine, reference, codec, other, foreign."""

    @pytest.mark.parametrize("floor", [0.0, FLOOR])
    def test_positions_equal_the_reference(
        self, engine: LMEngine, reference: SlowReference, floor: float
    ) -> None:
        requests = [
            PositionRequest(
                prompt_ids=r.prompt_ids, x_ids=r.x_ids, header_len=r.header_len, floor=floor
            )
            for r in POSITIONS
        ]
        check_positions(engine, reference, requests)

    def test_what_is_above_the_floor_is_never_missing(
        self, engine: LMEngine, reference: SlowReference
    ) -> None:
        request = asking(12, 60, floor=FLOOR)
        p_nV = np.exp(reference.position_logprobs(request, list(range(VOCABULARY))))
        likely = [int(token) for token in np.argsort(-p_nV.max(axis=0))[:20]]
        assert ((p_nV > FLOOR) & (p_nV < 0.1)).any()
        [logprobs_nA] = engine.position_logprobs([request], likely)
        assert logprobs_nA is not None
        expected_nA = p_nV[:, likely]
        found_nA = np.exp(logprobs_nA)
        assert (expected_nA > FLOOR).sum() > 10
        np.testing.assert_allclose(
            found_nA[expected_nA > FLOOR], expected_nA[expected_nA > FLOOR], atol=1e-5
        )
        assert not (found_nA > FLOOR)[expected_nA < FLOOR - 1e-5].any()

    def test_losses_equal_the_reference(self, engine: LMEngine, reference: SlowReference) -> None:
        check_losses(engine, reference, LOSSES)

    def test_losses_past_the_end_of_the_document_are_nan(self, engine: LMEngine) -> None:
        [logprobs_QW] = engine.window_logprobs([losses(9, 25, 22)], WIDTH)
        assert logprobs_QW is not None
        assert np.isnan(logprobs_QW).tolist() == [[False, False, False, True, True]]

    def test_characters_split_over_tokens(
        self, engine: LMEngine, reference: SlowReference, codec: TokenCodec
    ) -> None:
        x_ids = codec.canonical(UNICODE)[:40]
        split = [i for i, legal in enumerate(codec.legal_positions(x_ids)) if not legal]
        assert split
        request = PositionRequest(prompt_ids=codec.prompt_ids("Output:"), x_ids=x_ids)
        check_positions(engine, reference, [request])
        check_losses(
            engine,
            reference,
            [LossRequest(z_ids=ids(3), x_ids=x_ids, positions=at(0, *split, len(x_ids) - 1))],
        )

    def test_the_same_document_again_and_twice_at_once(
        self, engine: LMEngine, reference: SlowReference
    ) -> None:
        for floor in (0.0, FLOOR):
            twice = [asking(21, 44, floor)] * 2
            check_positions(engine, reference, twice)
            check_positions(engine, reference, [twice[0], asking(21, 43, floor), twice[1]])
        check_losses(engine, reference, [losses(5, 70, 60)] * 2)
        check_losses(engine, reference, [losses(5, 70, 60), losses(5, 70, 2, 66)])

    def test_the_order_of_requests_changes_no_number(self, engine: LMEngine) -> None:
        for forward, backward in (
            (
                engine.position_logprobs(POSITIONS, TOKENS),
                engine.position_logprobs(POSITIONS[::-1], TOKENS)[::-1],
            ),
            (
                engine.window_logprobs(LOSSES, WIDTH),
                engine.window_logprobs(LOSSES[::-1], WIDTH)[::-1],
            ),
        ):
            for ours, theirs in zip(forward, backward, strict=True):
                assert ours is not None and theirs is not None
                np.testing.assert_allclose(ours, theirs, atol=1e-4)

    def test_greedy_samples_equal_generate(
        self, engine: LMEngine, reference: SlowReference
    ) -> None:
        check_greedy(engine, reference)

    def test_the_same_seed_gives_the_same_sample_in_any_batch(self, engine: LMEngine) -> None:
        params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=12)
        together = engine.sample(SAMPLES, params)
        assert together == engine.sample(SAMPLES, params)
        assert together == [engine.sample([request], params)[0] for request in SAMPLES]
        assert together == engine.sample(SAMPLES[::-1], params)[::-1]
        lengths = {len(s.token_ids) for a in together if a for samples_m in a for s in samples_m}
        assert len(lengths) > 4

    @pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (1.6, 0.7)])
    def test_samples_are_drawn_from_the_model(
        self, engine: LMEngine, reference: SlowReference, temperature: float, top_p: float
    ) -> None:
        m = 600
        request = sampling(9, 4, m=m)
        params = SamplingParams(
            stop_ids=frozenset(), max_new_tokens=1, temperature=temperature, top_p=top_p
        )
        [answer] = engine.sample([request], params)
        assert answer is not None
        counts_V = np.bincount([s.token_ids[0] for s in answer[0]], minlength=VOCABULARY)
        # After [prompt, x[:4], open]: what a document of one more token is asked.
        before = PositionRequest(
            prompt_ids=np.concatenate([request.prompt_ids, request.x_ids[:4], at(257)]),
            x_ids=at(1),
        )
        logprobs_V = reference.position_logprobs(before, list(range(VOCABULARY)))[0]
        p_V = np.exp(logprobs_V / temperature)
        p_V /= p_V.sum()
        order = np.argsort(-p_V)
        kept = order[np.cumsum(p_V[order]) - p_V[order] < top_p]
        assert (len(kept) < VOCABULARY) == (top_p < 1.0)
        q_V = np.zeros(VOCABULARY)
        q_V[kept] = p_V[kept] / p_V[kept].sum()
        assert not counts_V[q_V == 0].any()
        sigma_V = np.sqrt(m * q_V * (1 - q_V))
        common = m * q_V > 5
        assert common.sum() > 2
        assert (np.abs(counts_V - m * q_V)[common] < 4 * sigma_V[common]).all()

    def test_any_token_with_a_bracket_ends_a_sample(
        self, engine: LMEngine, codec: TokenCodec
    ) -> None:
        params = SamplingParams(stop_ids=codec.close_ids, max_new_tokens=30, temperature=2.0)
        [answer] = engine.sample([sampling(9, 2, 5, 8, m=80)], params)
        assert answer is not None
        ended = [s for samples_m in answer for s in samples_m if s.ended]
        assert all(s.token_ids[-1] in codec.close_ids for s in ended)
        assert not any(codec.close_ids.intersection(s.token_ids[:-1]) for s in ended)
        closers = codec.token_bytes(sorted({s.token_ids[-1] for s in ended}))
        assert any(len(closer) > 1 for closer in closers), closers
        others = [s for samples_m in answer for s in samples_m if not s.ended]
        assert not any(codec.close_ids.intersection(s.token_ids) for s in others)

    def test_a_sample_ends_with_the_first_stop_token(self, engine: LMEngine) -> None:
        def drawn(stop_ids: frozenset[int]) -> Sample:
            params = SamplingParams(stop_ids=stop_ids, max_new_tokens=6, temperature=0.0)
            [answer] = engine.sample([sampling(9, 3, m=1)], params)
            assert answer is not None
            return answer[0][0]

        free = drawn(frozenset())
        assert len(free.token_ids) == 6 and not free.ended
        stop = free.token_ids[-1]
        length = free.token_ids.index(stop) + 1
        assert drawn(frozenset({stop})) == Sample(free.token_ids[:length], ended=True)

    def test_the_end_of_text_ends_a_sample_that_is_then_not_ended(
        self, engine: LMEngine, codec: TokenCodec
    ) -> None:
        params = SamplingParams(stop_ids=frozenset(), max_new_tokens=24, temperature=2.0)
        [answer] = engine.sample([sampling(9, 3, 5, 8, m=150)], params)
        assert answer is not None
        samples = [s for samples_m in answer for s in samples_m]
        finished = [s for s in samples if codec.eos_id in s.token_ids]
        assert finished
        assert all(s.token_ids.index(codec.eos_id) == len(s.token_ids) - 1 for s in finished)
        assert any(len(s.token_ids) < 24 for s in finished)
        assert not any(s.ended for s in samples)

    def test_a_sample_may_end_where_it_can_no_longer_be_a_call(
        self, engine: LMEngine, codec: TokenCodec
    ) -> None:
        request = sampling(9, 3, m=8)
        params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=10)
        [free] = engine.sample([request], params)
        hopeless = SampleRequest(
            prompt_ids=request.prompt_ids, x_ids=request.x_ids, positions=request.positions,
            open_ids=request.open_ids, seeds_Km=request.seeds_Km,
            may_be_call=lambda written: len(written) < 4,
        )  # fmt: skip
        [cut] = engine.sample([hopeless], params)
        assert free is not None and cut is not None
        for whole, part in zip(free[0], cut[0], strict=True):
            assert whole.token_ids[: len(part.token_ids)] == part.token_ids
            if part != whole:
                assert not part.ended
                assert len(b"".join(codec.token_bytes(part.token_ids))) >= 4

    def test_empty_calls_and_requests(self, engine: LMEngine) -> None:
        params = SamplingParams(stop_ids=STOP_IDS)
        assert list(engine.position_logprobs([], [3])) == []
        assert list(engine.window_logprobs([], WIDTH)) == []
        assert list(engine.sample([], params)) == []
        [nothing] = engine.position_logprobs([asking(4, 0)], [3, 4])
        assert nothing is not None and nothing.shape == (0, 2)
        [nothing] = engine.window_logprobs([losses(3, 8)], WIDTH)
        assert nothing is not None and nothing.shape == (0, WIDTH)
        assert list(engine.sample([sampling(9)], params)) == [[]]

    def test_what_is_longer_than_the_context_is_refused(self, engine: LMEngine) -> None:
        # An engine may need one more place after the last token.
        [fits] = engine.position_logprobs([asking(50, CONTEXT - 52)], [3])
        assert fits is not None and fits.shape == (CONTEXT - 52, 1)
        [fits] = engine.window_logprobs([losses(60, 200, 20)], WIDTH)
        assert fits is not None and np.isfinite(fits).all()
        with pytest.raises(ContractError, match=r"number 1 .* longer than the context"):
            engine.position_logprobs([asking(3, 3), asking(50, CONTEXT - 48)], [3])
        with pytest.raises(ContractError, match="longer than the context"):
            engine.window_logprobs([losses(60, 60, 50)], WIDTH)
        longest = SamplingParams(stop_ids=frozenset(), max_new_tokens=CONTEXT - 21)
        [answer] = engine.sample([sampling(20, 13, m=1)], longest)
        assert answer is not None and len(answer[0][0].token_ids) <= CONTEXT - 21
        longer = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=CONTEXT - 20)
        with pytest.raises(ContractError, match="longer than the context: 97 tokens"):
            engine.sample([sampling(20, 13)], longer)

    def test_positions_outside_the_document_are_refused(self, engine: LMEngine) -> None:
        with pytest.raises(ContractError, match="positions from 3 to 9"):
            engine.window_logprobs([losses(2, 9, 3, 9)], WIDTH)
        with pytest.raises(ContractError, match="positions from -1 to 3"):
            engine.sample([sampling(9, -1, 3)], SamplingParams(stop_ids=STOP_IDS))

    def test_usage_grows_by_kind(self, engine: LMEngine) -> None:
        before = engine.usage()
        engine.position_logprobs([asking(17, 21, FLOOR)], [3])
        after = engine.usage()
        assert 0 < after.position_tokens - before.position_tokens <= 1 + 17 + 21
        assert after.head_rows - before.head_rows >= 21
        assert after[1:3] == before[1:3]
        before = after
        engine.window_logprobs([losses(11, 33, 8)], WIDTH)
        after = engine.usage()
        assert 0 < after.loss_tokens - before.loss_tokens <= 1 + 11 + 8 + WIDTH
        assert after.head_rows - before.head_rows >= WIDTH
        assert (after.position_tokens, after.sample_tokens) == before[:2]
        before = after
        engine.sample(
            [sampling(19, 4, m=2)], SamplingParams(stop_ids=frozenset(), max_new_tokens=2)
        )
        after = engine.usage()
        assert after.sample_tokens > before.sample_tokens
        assert 1 < after.head_rows - before.head_rows <= 4
        assert (after.position_tokens, after.loss_tokens) == (before[0], before[2])

    def test_other_weights_answer_like_a_fresh_engine(
        self, engine: LMEngine, reference: SlowReference, checkpoint: Path, other: Path,
        codec: TokenCodec,
    ) -> None:  # fmt: skip
        assert codec.bos_id is not None and codec.eos_id is not None
        model: Any = AutoModelForCausalLM.from_pretrained(other)
        fresh = SlowReference(model.eval(), bos_id=codec.bos_id, eos_id=codec.eos_id)
        requests = [*POSITIONS, asking(40, 40, FLOOR)]
        engine.position_logprobs(requests, TOKENS)  # keys and values that must not be found again
        for path, expected in ((other, fresh), (checkpoint, reference)):
            engine.load_weights(str(path))
            assert engine.info.weights_id == weights_id(str(path), None)
            check_greedy(engine, expected)
            check_positions(engine, expected, requests)
            check_losses(engine, expected, LOSSES)

    def test_weights_of_another_shape_are_refused(
        self, engine: LMEngine, reference: SlowReference, foreign: Path
    ) -> None:
        info = engine.info
        with pytest.raises(ConfigError, match=str(foreign)):
            engine.load_weights(str(foreign))
        with pytest.raises(ConfigError, match="no such model directory"):
            engine.load_weights(str(foreign / "nowhere"))
        assert engine.info == info
        check_losses(engine, reference, LOSSES[:2])
