"""What every engine that generates must do, written once: subclasses say which engine.

`generation` is a new engine for each test, `reference` the slow reference for its checkpoint.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.engines.generation import Choosing, GenerationEngine, Step
from pipeline.engines.protocol import PositionRequest
from tests.pipeline.engines.asked import STOP_IDS, at, ids
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ContractError

LONGEST = CONTEXT - 1  # beside the begin-of-text token
GREEDY = Choosing(max_new_tokens=12)
TEXTS = [ids(0), ids(1), ids(9), ids(40)]


def joined(text: NDArray[np.int32], steps: list[Step]) -> NDArray[np.int32]:
    whole: NDArray[np.int32] = np.concatenate([text, at(*(step.token_id for step in steps))])
    return whole


def likeliest(reference: SlowReference, text: NDArray[np.int32]) -> list[int]:
    """Every token, the likeliest to follow `text` first."""
    request = PositionRequest(prompt_ids=text, x_ids=at(1))
    [logprobs_V] = reference.position_logprobs(request, list(range(VOCABULARY)))
    return [int(token) for token in np.argsort(-logprobs_V, kind="stable")]


def greedy(reference: SlowReference, text: NDArray[np.int32], choosing: Choosing) -> Iterator[Step]:
    """`choosing` written out, with a forward over everything for each token."""
    for _ in range(choosing.max_new_tokens):
        tokens = likeliest(reference, text)
        chosen = next(token for token in tokens if token not in choosing.banned_ids)
        triggered = (
            choosing.trigger_id in tokens[: choosing.trigger_k] and choosing.trigger_id != chosen
        )
        step = Step(choosing.trigger_id if triggered and choosing.trigger_id else chosen, triggered)
        yield step
        if step.token_id in choosing.stop_ids:
            return
        text = joined(text, [step])


async def stretch(
    generation: GenerationEngine, text: NDArray[np.int32], choosing: Choosing
) -> list[Step]:
    async with generation.begin(LONGEST) as begun:
        return [step async for step in begun.stretch(text, choosing)]


def triggering(reference: SlowReference, text: NDArray[np.int32], place: int, rank: int) -> int:
    """The token of that rank, from 1, at a place of the greedy text."""
    before = list(greedy(reference, text, replace(GREEDY, max_new_tokens=place)))
    return likeliest(reference, joined(text, before))[rank - 1]


class GenerationConformance:
    """A text that grows in any engine."""

    @pytest.mark.parametrize("number", range(len(TEXTS)))
    def test_greedy_text_is_that_of_plain_forwards(
        self, generation: GenerationEngine, reference: SlowReference, number: int
    ) -> None:
        steps = asyncio.run(stretch(generation, TEXTS[number], GREEDY))
        assert steps == list(greedy(reference, TEXTS[number], GREEDY))
        assert len(steps) == 12 and generation.usage().decoded_tokens == 12

    def test_a_stretch_ends_with_the_first_token_that_stops_it(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        # One token in nine: of four texts one or another is stopped, after more than a token.
        choosing = Choosing(max_new_tokens=20, stop_ids=STOP_IDS)
        lengths = []
        for text in TEXTS:
            steps = asyncio.run(stretch(generation, text, choosing))
            assert steps == list(greedy(reference, text, choosing))
            lengths.append(len(steps))
        assert set(lengths) - {1, 20}

    @pytest.mark.parametrize("rank", [1, 2, 5, 10])
    def test_a_token_among_the_likeliest_is_chosen(
        self, generation: GenerationEngine, reference: SlowReference, rank: int
    ) -> None:
        text, place = ids(9), 4
        trigger = triggering(reference, text, place, rank)
        triggers = replace(GREEDY, stop_ids=frozenset({trigger}), trigger_id=trigger)
        ends = []
        for k in (0, rank - 1, rank):
            choosing = replace(triggers, trigger_k=k)
            steps = asyncio.run(stretch(generation, text, choosing))
            assert steps == list(greedy(reference, text, choosing))
            ends.append((len(steps), steps[-1]))
        number, last = ends[-1]
        assert last == Step(trigger, triggered=rank > 1) and number <= place + 1
        assert rank == 1 or ends[-2] != ends[-1] != ends[0]

    def test_a_banned_token_is_never_chosen_and_keeps_its_rank(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        text = ids(9)
        regular = list(greedy(reference, text, GREEDY))
        banned = frozenset(step.token_id for step in regular[:3])
        choosing = replace(GREEDY, banned_ids=banned)
        steps = asyncio.run(stretch(generation, text, choosing))
        assert steps == list(greedy(reference, text, choosing))
        assert steps[0] != regular[0] and not banned & {step.token_id for step in steps}
        # The likeliest is banned; of those that are not, the second is the model's third.
        third = likeliest(reference, text)[2]
        for k, triggered in ((2, False), (3, True)):
            only = replace(
                choosing,
                stop_ids=frozenset({third}),
                trigger_id=third,
                trigger_k=k,
                max_new_tokens=1,
            )
            assert banned & set(likeliest(reference, text)[:2])
            [step] = asyncio.run(stretch(generation, text, only))
            assert step.triggered == triggered == (step.token_id == third)

    def test_what_is_drawn_depends_on_the_seed_alone(self, generation: GenerationEngine) -> None:
        choosing = Choosing(max_new_tokens=16, temperature=1.0, seed=3)
        again, other = choosing, replace(choosing, seed=4)

        async def drawn() -> list[list[Step]]:
            alone = await stretch(generation, ids(9), choosing)
            beside = [stretch(generation, ids(9), how) for how in (again, other, GREEDY)]
            return [alone, *await asyncio.gather(*beside)]

        first, second, third, regular = asyncio.run(drawn())
        assert first == second
        assert first != third and first[:12] != regular

    def test_tokens_are_drawn_from_the_nucleus(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        text = ids(9)
        request = PositionRequest(prompt_ids=text, x_ids=at(1))
        [logprobs_V] = reference.position_logprobs(request, list(range(VOCABULARY)))
        p_V = np.exp(logprobs_V / 1.5) / np.exp(logprobs_V / 1.5).sum()
        tokens = np.argsort(-p_V)
        size = int(np.searchsorted(np.cumsum(p_V[tokens]), 0.6)) + 1
        assert size > 3
        first = Choosing(max_new_tokens=1, temperature=1.5, top_p=0.6)

        async def draw(number: int) -> set[int]:
            drawn = await asyncio.gather(
                *(stretch(generation, text, replace(first, seed=n)) for n in range(number))
            )
            return {steps[0].token_id for steps in drawn}

        drawn = asyncio.run(draw(40))
        assert drawn <= set(tokens[:size].tolist()) and len(drawn) > 2

    def test_what_is_drawn_triggers_by_the_models_own_ranks(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        text, k = ids(9), 4
        trigger = triggering(reference, text, 3, 4)
        choosing = Choosing(
            max_new_tokens=40, stop_ids=frozenset({trigger}), trigger_id=trigger, trigger_k=k,
            temperature=2.0, top_p=0.5,
        )  # fmt: skip
        drawn = [
            asyncio.run(stretch(generation, text, replace(choosing, seed=seed)))
            for seed in range(4)
        ]
        for steps in drawn:
            for place, step in enumerate(steps):
                among = trigger in likeliest(reference, joined(text, steps[:place]))[:k]
                # It may be drawn where it is not among them.
                assert step.token_id == trigger if among else not step.triggered
        assert any(steps[-1].triggered and len(steps) > 1 for steps in drawn)

    def test_texts_grow_side_by_side(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        async def together() -> list[list[Step]]:
            return await asyncio.gather(*(stretch(generation, text, GREEDY) for text in TEXTS))

        for text, steps in zip(TEXTS, asyncio.run(together()), strict=True):
            assert steps == list(greedy(reference, text, GREEDY))

    def test_a_text_that_waits_holds_up_no_other(self, generation: GenerationEngine) -> None:
        async def beside() -> tuple[list[Step], list[Step]]:
            async with (
                generation.begin(LONGEST) as begun,
                aclosing(begun.stretch(ids(9), GREEDY)) as steps,
            ):
                first = [await anext(steps)]
                other = await stretch(generation, ids(40), GREEDY)
                first += [step async for step in steps]
            return first, other

        first, other = asyncio.run(beside())
        assert first == asyncio.run(stretch(generation, ids(9), GREEDY))
        assert other == asyncio.run(stretch(generation, ids(40), GREEDY))

    def test_a_text_goes_on_after_what_was_inserted_and_taken_back(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        async def grow() -> None:
            async with generation.begin(LONGEST) as begun:
                text = ids(30)
                for added in (ids(7), ids(2, seed=1), ids(0)):
                    steps = [step async for step in begun.stretch(text, GREEDY)]
                    assert steps == list(greedy(reference, text, GREEDY))
                    # A result after most of the stretch, whose last tokens are taken back.
                    text = np.concatenate([joined(text, steps[:8]), added])

        asyncio.run(grow())

    def test_a_stretch_that_is_left_early_leaves_its_text_whole(
        self, generation: GenerationEngine, reference: SlowReference
    ) -> None:
        async def leave() -> None:
            async with generation.begin(LONGEST) as begun:
                async with aclosing(begun.stretch(ids(9), replace(GREEDY, max_new_tokens=80))) as s:
                    steps = [await anext(s), await anext(s)]
                text = joined(ids(9), steps)

                async def forever() -> None:
                    async for step in begun.stretch(text, replace(GREEDY, max_new_tokens=80)):
                        steps.append(step)
                        went_on.set()

                went_on = asyncio.Event()
                task = asyncio.create_task(forever())
                await went_on.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                steps += [step async for step in begun.stretch(joined(ids(9), steps), GREEDY)]
                expected = replace(GREEDY, max_new_tokens=len(steps))
                assert steps == list(greedy(reference, ids(9), expected))

        asyncio.run(leave())

    def test_what_gets_too_long_is_refused(self, generation: GenerationEngine) -> None:
        async def begin(tokens: int) -> None:
            async with generation.begin(tokens):
                pass

        async def grow(length: int, more: int) -> int:
            async with generation.begin(20) as begun:
                choosing = Choosing(max_new_tokens=more)
                return len([step async for step in begun.stretch(ids(length), choosing)])

        with pytest.raises(ContractError, match=rf"\b{CONTEXT}\b.* expected at most"):
            asyncio.run(begin(CONTEXT))
        with pytest.raises(ContractError, match=r"\b21\b.* expected at most 20"):
            asyncio.run(grow(15, 6))
        assert asyncio.run(grow(15, 5)) == 5
        longest = Choosing(max_new_tokens=5)
        assert len(asyncio.run(stretch(generation, ids(LONGEST - 5), longest))) == 5
