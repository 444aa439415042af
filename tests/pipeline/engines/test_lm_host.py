"""A replica without Ray: what it answers does not depend on what else it is asked."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.engines.actor import LMHost
from pipeline.engines.gate import Turn
from pipeline.method import Method
from pipeline.tokens import TokenCodec
from pipeline.trace import read_trace
from tests.pipeline.engines.demo_units import (
    configured,
    demo_codec,
    demo_method,
    demo_unit,
    executed,
    num_gains,
)
from tools.base import ConfigError


def hosted(**settings: Any) -> LMHost:
    config = configured(**settings)
    (pool,) = config.pools
    return LMHost(config.model, pool)


@pytest.fixture(scope="module")
def demo() -> tuple[TokenCodec, Method]:
    codec = demo_codec()
    return codec, demo_method(codec)


@pytest.fixture(scope="module")
def units(demo: tuple[TokenCodec, Method]) -> dict[str, pa.Table]:
    codec, method = demo
    return {"a": demo_unit(0, 6, method, codec), "b": demo_unit(6, 6, method, codec)}


class Annotation:
    """Annotates units in a replica and remembers in which order its stages ended."""

    def __init__(self, host: LMHost, demo: tuple[TokenCodec, Method]) -> None:
        self._host = host
        self._codec, self._method = demo
        self.order: list[str] = []

    async def of(self, name: str, unit: pa.Table) -> pa.Table:
        sampled = await self._host.sample_unit(unit, self._method)
        self.order.append(f"sampled {name}")
        asked = executed(sampled, self._method, self._codec)
        scored = await self._host.score_unit(asked, self._method)
        self.order.append(f"scored {name}")
        return scored


@pytest.fixture(scope="module")
def in_turn(units: dict[str, pa.Table], demo: tuple[TokenCodec, Method]) -> dict[str, pa.Table]:
    """The units annotated one after the other."""

    async def annotated() -> dict[str, pa.Table]:
        annotation = Annotation(hosted(), demo)
        return {name: await annotation.of(name, unit) for name, unit in units.items()}

    tables = asyncio.run(annotated())
    assert all(num_gains(table) for table in tables.values())
    return tables


def test_units_at_once_are_annotated_like_one_after_the_other(
    units: dict[str, pa.Table],
    demo: tuple[TokenCodec, Method],
    in_turn: dict[str, pa.Table],
) -> None:
    async def annotated() -> list[pa.Table]:
        annotation = Annotation(hosted(), demo)
        tables = await asyncio.gather(*(annotation.of(n, unit) for n, unit in units.items()))
        assert annotation.order == ["sampled a", "sampled b", "scored a", "scored b"]
        return tables

    for table, expected in zip(asyncio.run(annotated()), in_turn.values(), strict=True):
        assert table.drop_columns("trace").equals(expected.drop_columns("trace"))
        assert read_trace(table)["tokens"] == read_trace(expected)["tokens"]


def test_a_call_that_is_cancelled_keeps_its_turn_until_its_thread_has_ended(
    checkpoints: dict[str, Path],
) -> None:
    async def test() -> None:
        host = hosted(path=checkpoints["gptj"])
        loaded = await host._loaded.get()
        started, may_end = threading.Event(), threading.Event()
        order: list[str] = []

        def first() -> None:
            started.set()
            may_end.wait(60)
            order.append("first")

        cancelled = asyncio.create_task(host._in_turn(Turn.SAMPLE_UNIT, 0, loaded, first))
        await asyncio.to_thread(started.wait, 60)
        cancelled.cancel()
        behind = asyncio.create_task(
            host._in_turn(Turn.LOSS, 0, loaded, lambda: order.append("behind"))
        )
        for _ in range(10):
            await asyncio.sleep(0)
        assert (loaded.gate.running, loaded.gate.waiting(Turn.LOSS)) == (1, 1)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await behind
        assert order == ["first", "behind"]

    asyncio.run(test())


def test_who_stops_waiting_for_the_weights_does_not_stop_their_loading(
    checkpoints: dict[str, Path],
) -> None:
    async def test() -> None:
        host = hosted(path=checkpoints["gptj"])
        first = asyncio.create_task(host.info())
        await asyncio.sleep(0)
        begun = host._loaded._running
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await host.has_a_place()
        assert (await host.info()).name == "torch"
        assert begun is not None and host._loaded._running is begun

    asyncio.run(test())


def test_what_cannot_be_loaded_is_tried_again(tmp_path: Path) -> None:
    async def test() -> None:
        host = hosted(path=tmp_path / "nothing")
        for _ in range(2):
            with pytest.raises(ConfigError, match="no such model directory"):
                await host.info()

    asyncio.run(test())
