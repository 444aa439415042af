"""Which texts a pass of torch takes, who waits, and what ends when something fails."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.generation import Step
from pipeline.engines.load import load_generation_engine
from pipeline.engines.stretches import KeptText, Stretch, form_pass
from pipeline.engines.torch_generation import TorchGeneration
from tests.pipeline.engines.asked import at, ids
from tests.pipeline.engines.generation_conformance import (
    GREEDY,
    LONGEST,
    stretch,
)
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY
from tools.base import ConfigError, ContractError


def test_who_finds_no_room_waits(narrow: TorchGeneration) -> None:
    order: list[str] = []

    async def text(name: str, tokens: int, gate: asyncio.Event) -> None:
        async with narrow.begin(tokens) as begun:
            order.append(name)
            assert len([step async for step in begun.stretch(ids(9), GREEDY)]) == 12
            await gate.wait()

    async def texts() -> None:
        gates = [asyncio.Event() for _ in range(3)]
        # Room for 100: 50 and 40, and beside them not for 30.
        tasks = [
            asyncio.create_task(text(name, tokens - 1, gate))
            for name, tokens, gate in zip("abc", (50, 40, 30), gates, strict=True)
        ]
        for gate in (gates[1], gates[0], gates[2]):
            await stretch_steps()
            assert order == (["a", "b"] if not gates[1].is_set() else ["a", "b", "c"])
            gate.set()
        await asyncio.gather(*tasks)

    async def stretch_steps() -> None:
        while narrow.usage().decoded_tokens < 12 * len(order):
            await asyncio.sleep(0.001)
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(texts())


def test_room_is_for_one_text_at_least(checkpoints: dict[str, Path]) -> None:
    engine = TorchGeneration.load(str(checkpoints["gptj"]), kept_tokens=0)
    assert len(asyncio.run(stretch(engine, ids(LONGEST - 12), GREEDY))) == 12
    asyncio.run(engine.close())


def waiting(tokens: int) -> Stretch:
    return Stretch(text=KeptText(0), ids=at(), choosing=GREEDY, waiting=ids(tokens))


def test_a_pass_takes_what_waits_for_one_token_first_and_a_part_of_what_is_long() -> None:
    stretches = [waiting(tokens) for tokens in (50, 1, 30, 0, 1)]
    long, one, second, none, other = stretches
    assert form_pass(stretches, 64) == [(one, 1), (none, 0), (other, 1), (long, 50), (second, 12)]
    assert form_pass(stretches, 52) == [(one, 1), (none, 0), (other, 1), (long, 50)]
    assert form_pass(stretches, 1) == [(one, 1), (none, 0)]
    assert form_pass(stretches, 20) == [(one, 1), (none, 0), (other, 1), (long, 18)]


def test_the_token_budget_changes_no_token(gptj: TorchGeneration, narrow: TorchGeneration) -> None:
    texts = [ids(LONGEST - 12, seed=seed) for seed in range(3)] + [ids(2)]

    async def together(engine: TorchGeneration) -> list[list[Step]]:
        return await asyncio.gather(*(stretch_of(engine, text) for text in texts))

    async def stretch_of(engine: TorchGeneration, text: NDArray[np.int32]) -> list[Step]:
        async with engine.begin(len(text) + 12) as begun:
            return [step async for step in begun.stretch(text, GREEDY)]

    assert asyncio.run(together(narrow)) == asyncio.run(together(gptj))
    assert narrow.usage() == gptj.usage()


class WatchedTexts:
    """The texts of a model; `seen` is called in each pass with the tokens it is given."""

    def __init__(self, engine: TorchGeneration, seen: Any) -> None:
        self._texts, self._seen = engine._stretches._texts, seen
        engine._stretches._texts = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._texts, name)

    def extend(self, numbers: Sequence[int], tokens: Sequence[Any]) -> Any:
        self._seen([len(added) for added in tokens])
        return self._texts.extend(numbers, tokens)

    def begin(self) -> int:
        return self._texts.begin()

    def cut(self, number: int, length: int) -> None:
        self._texts.cut(number, length)

    def forget(self, number: int) -> None:
        self._texts.forget(number)


def test_the_event_loop_is_free_during_a_pass(gptj: TorchGeneration) -> None:
    free, freed = threading.Event(), []
    WatchedTexts(gptj, lambda _: freed.append(free.wait(timeout=60)))

    async def beside() -> list[Step]:
        task = asyncio.create_task(stretch(gptj, ids(9), GREEDY))
        while not gptj._answers:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        free.set()
        return await task

    assert len(asyncio.run(beside())) == 12
    assert freed == [True] * 12


def test_where_memory_is_short_passes_are_smaller(
    gptj: TorchGeneration,
) -> None:
    def seen(counts: list[int]) -> None:
        if sum(counts) > 80:
            raise torch.OutOfMemoryError(f"{counts}")

    texts = [ids(40), ids(9), ids(21), ids(70)]

    async def together() -> list[list[Step]]:
        return await asyncio.gather(*(stretch(gptj, text, GREEDY) for text in texts))

    expected, usage = asyncio.run(together()), gptj.usage()
    WatchedTexts(gptj, seen)
    assert asyncio.run(together()) == expected
    assert gptj.usage() == tuple(2 * count for count in usage)


def test_a_text_that_does_not_fit_alone_is_the_only_one_that_ends(gptj: TorchGeneration) -> None:
    full = True

    def seen(counts: list[int]) -> None:
        if full and max(counts) > 20:
            raise torch.OutOfMemoryError(f"{counts}")

    async def texts() -> None:
        nonlocal full
        before = await stretch(gptj, ids(9), GREEDY)
        WatchedTexts(gptj, seen)
        async with gptj.begin(LONGEST) as begun:
            beside = asyncio.create_task(stretch(gptj, ids(3), GREEDY))
            await asyncio.sleep(0)
            with pytest.raises(ConfigError, match="out of memory: no room for 41 more tokens"):
                [step async for step in begun.stretch(ids(40), GREEDY)]
            assert len(await beside) == 12
            full = False
            again = [step async for step in begun.stretch(ids(9), GREEDY)]
        assert again == before

    asyncio.run(texts())


def test_what_fails_in_a_pass_reaches_all_who_wait_and_nothing_else(gptj: TorchGeneration) -> None:
    async def texts() -> list[Any]:
        some = [stretch(gptj, ids(n), GREEDY) for n in (3, 9, 21)]
        return await asyncio.gather(*some, return_exceptions=True)

    whole = asyncio.run(texts())
    head = gptj._lm.head._weight_VD
    sound = head.clone()
    head[3] = float("nan")
    for error in asyncio.run(texts()):
        assert isinstance(error, ConfigError) and "logits are not finite" in str(error)
    head.copy_(sound)
    assert asyncio.run(texts()) == whole


def test_a_text_whose_logits_are_no_numbers_is_the_only_one_that_ends(
    gptj: TorchGeneration,
) -> None:
    texts = [ids(3), ids(9), ids(21)]
    broken = next(token for token in range(1, VOCABULARY) if token not in np.concatenate(texts))
    how = replace(GREEDY, banned_ids=frozenset({broken}))
    ways = [how, replace(how, temperature=1.3, seed=5), how]

    async def together(*more: NDArray[np.int32]) -> list[Any]:
        some = [stretch(gptj, text, how) for text, how in zip(texts, ways, strict=True)]
        some[1:1] = [stretch(gptj, text, how) for text in more]
        return await asyncio.gather(*some, return_exceptions=True)

    whole, decoded = asyncio.run(together()), gptj.usage().decoded_tokens
    lm: Any = gptj._lm
    lm._weights.embedding[broken] = float("nan")
    first, error, *others = asyncio.run(together(at(broken)))
    assert isinstance(error, ConfigError) and "logits are not finite" in str(error)
    assert [first, *others] == whole
    assert gptj.usage().decoded_tokens == 2 * decoded


def test_closing_ends_what_runs(checkpoints: dict[str, Path]) -> None:
    engine = TorchGeneration.load(str(checkpoints["gptj"]))

    async def close() -> None:
        async with engine.begin(LONGEST) as begun:
            steps = begun.stretch(ids(9), replace(GREEDY, max_new_tokens=80))
            await anext(steps)
            await engine.close()
            with pytest.raises(ContractError, match="got a closed engine"):
                [step async for step in steps]
            with pytest.raises(ContractError, match="got a closed engine"):
                [step async for step in begun.stretch(ids(9), GREEDY)]
        await engine.close()

    asyncio.run(close())
    assert not [t for t in threading.enumerate() if t.name.startswith("generation")]


def test_a_configuration_names_the_engine(checkpoints: dict[str, Path]) -> None:
    model = ModelConfig(path=str(checkpoints["gptj"]))
    engine = load_generation_engine(model, EngineConfig(name="torch", token_budget=64))
    assert engine.info.name == "torch" and engine.info.max_len == CONTEXT
    asyncio.run(engine.close())
    with pytest.raises(ConfigError, match=r"engine a\.b:C: cannot generate; expected"):
        load_generation_engine(model, EngineConfig(name="a.b:C"))
