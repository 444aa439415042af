"""Texts that go on in torch, beside what every engine that generates must do."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from pipeline.engines.drawing import uniform
from pipeline.engines.generation import Choosing, GenerationEngine, Step
from pipeline.engines.protocol import PositionRequest
from pipeline.engines.stretches import Stretch
from pipeline.engines.torch_generation import TorchGeneration
from tests.pipeline.engines.asked import at, ids
from tests.pipeline.engines.conftest import ARCHITECTURES, opened, reference_of
from tests.pipeline.engines.generation_conformance import (
    GREEDY,
    LONGEST,
    GenerationConformance,
    joined,
    stretch,
)
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import VOCABULARY

DRAWN = Choosing(max_new_tokens=10, temperature=1.3, top_p=0.9)


@pytest.fixture(scope="module", params=["llama", "gpt_neox"])
def one_of_each_form(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Path:
    """Packed and not: what is the architecture's own is compared in packed/test_texts.py."""
    return checkpoints[request.param]


@pytest.fixture(scope="module")
def reference(one_of_each_form: Path) -> SlowReference:
    return reference_of(one_of_each_form)


@pytest.fixture
def generation(one_of_each_form: Path) -> Iterator[TorchGeneration]:
    yield from opened(one_of_each_form)


class TestTorchGeneration(GenerationConformance):
    # The tenth of the Llama's tokens there is what it chooses itself two tokens before.
    @pytest.mark.parametrize("rank", [1, 2, 5])
    def test_a_token_among_the_likeliest_is_chosen(
        self, generation: GenerationEngine, reference: SlowReference, rank: int
    ) -> None:
        super().test_a_token_among_the_likeliest_is_chosen(generation, reference, rank)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_many_texts_begun_at_any_time_are_those_of_generate(
    checkpoints: dict[str, Path], architecture: str
) -> None:
    checkpoint = checkpoints[architecture]
    generation = TorchGeneration.load(str(checkpoint))
    texts = [ids(length, seed=1) for length in (0, 1, 2, 5, 13, 34, 58, 75)]

    async def later(number: int) -> list[Step]:
        for _ in range(3 * number):
            await asyncio.sleep(0)
        return await stretch(generation, texts[number], replace(GREEDY, max_new_tokens=14))

    async def together() -> list[list[Step]]:
        return await asyncio.gather(*(later(number) for number in range(len(texts))))

    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    decoded = asyncio.run(together())
    asyncio.run(generation.close())
    for text, steps in zip(texts, decoded, strict=True):
        before = torch.tensor([[0, *text.tolist()]])
        with torch.inference_mode():
            expected = model.eval().generate(
                before, attention_mask=torch.ones_like(before), do_sample=False,
                max_new_tokens=14, min_new_tokens=14, eos_token_id=VOCABULARY + 1, pad_token_id=0,
            )  # fmt: skip
        assert [step.token_id for step in steps] == expected[0, before.shape[1] :].tolist()


def draw_slowly(
    reference: SlowReference, text: NDArray[np.int32], choosing: Choosing
) -> list[Step]:
    """A forward over everything for each token, and the sampler written out."""
    steps: list[Step] = []
    for _ in range(choosing.max_new_tokens):
        request = PositionRequest(prompt_ids=text, x_ids=at(1))
        [logprobs_V] = reference.position_logprobs(request, list(range(VOCABULARY)))
        p_V = np.exp(logprobs_V / choosing.temperature)
        p_V /= p_V.sum()
        order = np.argsort(-p_V, kind="stable")
        p_V[order[np.cumsum(p_V[order]) - p_V[order] >= choosing.top_p]] = 0.0
        target = uniform(choosing.seed, len(text)) * p_V.sum()
        steps.append(Step(int(np.searchsorted(np.cumsum(p_V), target, side="right"))))
        text = joined(text, steps[-1:])
    return steps


def test_drawn_texts_are_those_of_a_forward_for_each_token(
    generation: TorchGeneration, reference: SlowReference
) -> None:
    texts = [ids(0), ids(9), ids(40), ids(9), ids(21)]
    ways = [replace(DRAWN, seed=2**63 - 1 - seed) for seed in range(5)]
    ways[2] = replace(DRAWN, temperature=1.0, top_p=1.0)

    async def together() -> list[list[Step]]:
        some = zip(texts, ways, strict=True)
        return await asyncio.gather(*(stretch(generation, text, how) for text, how in some))

    for text, how, steps in zip(texts, ways, asyncio.run(together()), strict=True):
        assert steps == draw_slowly(reference, text, how)


@pytest.mark.parametrize("how", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_it_does_not_matter_where_a_text_is_cut(gptj: TorchGeneration, how: Choosing) -> None:
    async def grow(pieces: Sequence[int]) -> list[Step]:
        async with gptj.begin(LONGEST) as begun:
            steps: list[Step] = []
            for piece in pieces:
                text = joined(ids(9), steps)
                choosing = replace(how, max_new_tokens=piece)
                steps += [step async for step in begun.stretch(text, choosing)]
        return steps

    async def every() -> list[list[Step]]:
        cuts = ([24], [1] * 24, [5, 1, 18], [11, 13])
        return await asyncio.gather(*(grow(cut) for cut in cuts))

    whole, *others = asyncio.run(every())
    assert len(whole) == 24
    assert others == [whole] * 3


def test_no_token_is_run_twice(gptj: TorchGeneration) -> None:
    async def grow() -> None:
        async with gptj.begin(LONGEST) as begun:

            async def more(text: NDArray[np.int32], choosing: Choosing) -> NDArray[np.int32]:
                steps = [step async for step in begun.stretch(text, choosing)]
                return joined(text, steps)

            text = await more(ids(20), replace(GREEDY, max_new_tokens=5))
            # Begin-of-text and 20; of the 5 that were chosen the last is not run yet.
            assert gptj.usage() == (1 + 20 + 4, 0, 5)
            text = np.concatenate([text, ids(6)])
            text = await more(text, replace(GREEDY, max_new_tokens=3))
            assert gptj.usage() == (1 + 20 + 5 + 6 + 2, 25, 8)
            # The last is taken back: what came before it is as it was left, nothing is run.
            trigger = int(text[-1])
            again = await more(
                text[:-1], Choosing(max_new_tokens=1, banned_ids=frozenset([trigger]))
            )
            assert again[-1] != trigger
            assert gptj.usage() == (34, 25 + 34, 9)
            # Further back, one token is run for what follows it.
            text = text[:24]
            await more(text, replace(GREEDY, max_new_tokens=1))
            assert gptj.usage() == (34 + 1, 59 + 24, 10)
            # Another text altogether shares begin-of-text alone.
            await more(np.concatenate([[text[0] + 1], text[1:]]), GREEDY)
            assert gptj.usage() == (35 + 24 + 11, 83 + 1, 22)
        await stretch(gptj, text, replace(GREEDY, max_new_tokens=1))
        assert gptj.usage() == (70 + 25, 84, 23)  # what was kept of a text ends with it

    asyncio.run(grow())


def test_a_text_cut_by_a_stretch_that_left_before_its_pass_goes_on(gptj: TorchGeneration) -> None:
    async def leave() -> None:
        one = replace(GREEDY, max_new_tokens=1)
        async with gptj.begin(LONGEST) as begun:
            [_] = [step async for step in begun.stretch(ids(21), one)]
            text = begun._kept
            gptj._stretches.next_pass([Stretch(text=text, ids=ids(21)[:9], choosing=one)], 1)
            # All but the last of those are kept now, without the state after them.
            again = [step async for step in begun.stretch(ids(21)[:8], one)]
        assert again == await stretch(gptj, ids(21)[:8], one)

    asyncio.run(leave())


def test_a_text_that_nobody_reads_on_leaves_the_batch(gptj: TorchGeneration) -> None:
    async def leave() -> None:
        long = replace(GREEDY, max_new_tokens=80)
        async with gptj.begin(LONGEST) as begun:
            async with aclosing(begun.stretch(ids(9), long)) as steps:
                await anext(steps)
            assert gptj._driver is not None
            await asyncio.wait([gptj._driver])
            assert gptj.usage().decoded_tokens == 1  # the next pass had not begun
            task = asyncio.create_task(stretch(gptj, ids(10), long))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            decoded = gptj.usage().decoded_tokens
            await stretch(gptj, ids(40), GREEDY)
            # The pass that was under way when it was cancelled, and no other.
            assert gptj.usage().decoded_tokens <= decoded + 1 + 12

    asyncio.run(leave())


def test_an_iterator_that_nobody_closed_ends_with_the_next_stretch(gptj: TorchGeneration) -> None:
    async def forget() -> None:
        async with gptj.begin(LONGEST) as begun:
            left = begun.stretch(ids(9), replace(GREEDY, max_new_tokens=80))
            first = await anext(left)
            going_on = [step async for step in begun.stretch(joined(ids(9), [first]), GREEDY)]
            assert len(going_on) == 12
            assert [step async for step in left] in ([], going_on[:1])

    asyncio.run(forget())


def test_iterators_that_nobody_closed_end_with_their_text(gptj: TorchGeneration) -> None:
    async def forget() -> None:
        beside = asyncio.create_task(stretch(gptj, ids(40), GREEDY))
        async with gptj.begin(LONGEST) as begun:
            unread = begun.stretch(ids(3), GREEDY)
            left = begun.stretch(ids(9), replace(GREEDY, max_new_tokens=80))
            await anext(left)
        assert [step async for step in left] == [step async for step in unread] == []
        assert len(await beside) == 12

    asyncio.run(forget())


def test_nothing_is_kept_of_texts_that_ended(gptj: TorchGeneration) -> None:
    async def some() -> None:
        await asyncio.gather(*(stretch(gptj, text, GREEDY) for text in (ids(3), ids(9), ids(70))))

    texts: Any = gptj._stretches._texts
    asyncio.run(some())
    asyncio.run(gptj.close())  # waits for what is under way
    assert not texts._texts and not texts._grids
