"""What P, S and L ask of vLLM and what they read from its answers, without vLLM."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.engines.protocol import Sample, SampleRequest, SamplingParams
from pipeline.engines.vllm_capabilities import Capabilities, PositionMethod
from pipeline.engines.vllm_requests import Tally, position_logprobs, samples, token_logprobs
from tools.base import ContractError

BEFORE = [0, 7, 8, 9]
X_IDS = [11, 12, 13]


def logprob(place: int, token: int) -> float:
    """What the fake vLLM says of a token in a place of the prompt, exact in float32."""
    return -(place + token / 128)


class PromptIdsCore:
    """A vLLM that answers `prompt_logprob_token_ids`, as often as not without the answer."""

    capabilities = Capabilities(prompt_ids=True, sample_ids=True)

    def __init__(self, *, cached: bool = False, mute: bool = False, rows_short: int = 0) -> None:
        self.cached, self.mute, self.rows_short = cached, mute, rows_short
        self.asked: list[dict[str, Any]] = []
        self.tokens_in_flight: list[int] = []

    @asynccontextmanager
    async def in_flight(self, tokens: int) -> AsyncIterator[None]:
        self.tokens_in_flight.append(tokens)
        yield

    async def generate(self, prompt: Sequence[int], **params: Any) -> Any:
        self.asked.append({"prompt": list(prompt), **params})
        told = None
        if not self.mute and not (self.cached and not params["skip_reading_prefix_cache"]):
            ids_nA = params["prompt_logprob_token_ids"]
            # Row s says what follows token s.
            first = params["prompt_logprob_start"] + 1
            told = [
                [logprob(first + row, int(token)) for token in ids_A]
                for row, ids_A in enumerate(ids_nA)
            ][self.rows_short :]
        return SimpleNamespace(
            prompt_token_ids=list(prompt),
            num_cached_tokens=0 if params["skip_reading_prefix_cache"] else 2,
            prompt_token_id_logprobs=told,
            outputs=[SimpleNamespace(token_ids=[5])],
        )


def positions(core: PromptIdsCore, token_ids: Sequence[int], tally: Tally) -> Any:
    method = core.capabilities.position_method(0.0)
    assert method is PositionMethod.PROMPT_IDS
    return asyncio.run(position_logprobs(core, BEFORE, X_IDS, token_ids, method, tally))


def test_p_asks_for_the_same_tokens_in_every_place_of_the_document() -> None:
    core, tally = PromptIdsCore(), Tally()
    logprobs_nA = positions(core, [64, 3], tally)
    # The document begins in place 4.
    expected = [[logprob(place, 64), logprob(place, 3)] for place in (4, 5, 6)]
    assert logprobs_nA.dtype == np.float32 and logprobs_nA.tolist() == expected
    [asked] = core.asked
    assert asked["prompt"] == [0, 7, 8, 9, 11, 12, 13]
    assert asked["prompt_logprob_start"] == 3
    ids_nA = asked["prompt_logprob_token_ids"]
    assert ids_nA.dtype == np.int32 and ids_nA.tolist() == [[64, 3]] * 3
    assert (asked["max_tokens"], asked["temperature"]) == (1, 0.0)
    assert core.tokens_in_flight == [7]
    # Two of seven tokens were in the cache; three rows were asked about and one token was drawn.
    assert tally == Tally(tokens=5, rows=3 + 1)


def test_l_asks_for_the_tokens_of_the_document_itself() -> None:
    core, tally = PromptIdsCore(), Tally()
    logprobs_n = asyncio.run(token_logprobs(core, BEFORE, X_IDS, 1, tally))
    assert logprobs_n.dtype == np.float32
    assert logprobs_n.tolist() == [logprob(5, 12), logprob(6, 13)]
    [asked] = core.asked
    assert asked["prompt_logprob_start"] == 4
    assert asked["prompt_logprob_token_ids"].tolist() == [[12], [13]]


def test_a_prompt_in_the_cache_is_asked_about_again_past_it() -> None:
    core, tally = PromptIdsCore(cached=True), Tally()
    assert positions(core, [64], tally)[:, 0].tolist() == [logprob(p, 64) for p in (4, 5, 6)]
    first, again = core.asked
    assert not first.pop("skip_reading_prefix_cache") and again.pop("skip_reading_prefix_cache")
    ids, ids_again = first.pop("prompt_logprob_token_ids"), again.pop("prompt_logprob_token_ids")
    assert first == again and ids.tolist() == ids_again.tolist()
    assert tally == Tally(tokens=5 + 7, rows=1 + 4)


@pytest.mark.parametrize(
    ("core", "got"),
    [
        (PromptIdsCore(mute=True), r"no log-probabilities"),
        (PromptIdsCore(rows_short=1), r"\(2, 2\) of them"),
    ],
)
def test_an_answer_of_another_shape_is_refused(core: PromptIdsCore, got: str) -> None:
    with pytest.raises(ContractError, match=rf"of 7 tokens: got {got}, expected \(3, 2\) log-pro"):
        positions(core, [64, 3], Tally())


class DrawingCore(PromptIdsCore):
    """A vLLM that draws the last token of the prompt, the seed, and 99."""

    async def generate(self, prompt: Sequence[int], **params: Any) -> Any:
        self.asked.append({"prompt": list(prompt), **params})
        drawn = [prompt[-1], params.get("seed", 1), 99]
        return SimpleNamespace(
            prompt_token_ids=list(prompt),
            num_cached_tokens=0,
            outputs=[SimpleNamespace(token_ids=drawn)],
        )


def asked_samples(core: DrawingCore, temperature: float) -> list[list[Sample]]:
    request = SampleRequest(
        prompt_ids=np.array([7, 8], dtype=np.int32), x_ids=np.array(X_IDS, dtype=np.int32),
        positions=np.array([0, 2], dtype=np.int32), open_ids=(20, 21),
        seeds_Km=np.array([[2, (1 << 63) + 3], [4, 5]], dtype=np.uint64),
    )  # fmt: skip
    params = SamplingParams(
        stop_ids=frozenset({99, 98}), max_new_tokens=3, temperature=temperature, top_p=0.5
    )
    return asyncio.run(samples(core, request, params, bos_id=0, eos_id=1, tally=Tally()))


def test_every_seed_draws_behind_its_position() -> None:
    core = DrawingCore()
    assert asked_samples(core, 1.5) == [
        [Sample((21, 2, 99), ended=True), Sample((21, 3, 99), ended=True)],  # 63 bits of a seed
        [Sample((21, 4, 99), ended=True), Sample((21, 5, 99), ended=True)],
    ]
    assert [asked["prompt"] for asked in core.asked] == [
        [0, 7, 8, 20, 21], [0, 7, 8, 20, 21], [0, 7, 8, 11, 12, 20, 21], [0, 7, 8, 11, 12, 20, 21],
    ]  # fmt: skip
    for asked in core.asked:
        assert asked["stop_token_ids"] == [1, 98, 99]
        assert (asked["max_tokens"], asked["temperature"], asked["top_p"]) == (3, 1.5, 0.5)
    assert core.tokens_in_flight == [3 + 3 + 4 * (2 + 3)]


def test_one_greedy_sample_speaks_for_all_of_a_position() -> None:
    core = DrawingCore()
    greedy = Sample((21, 1, 99), ended=True)
    assert asked_samples(core, 0.0) == [[greedy, greedy], [greedy, greedy]]
    assert len(core.asked) == 2
    assert not any("seed" in asked or "top_p" in asked for asked in core.asked)
