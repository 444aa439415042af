"""Tools in actors, which a text waits for as for any other."""

import asyncio
import datetime as dt
from typing import Any

import pytest
import ray

from pipeline.tool_config import ServedTool
from tools.base import ToolformerError, ToolResult, ToolStatus
from training.generate.brackets import WrittenCall
from training.generate.live_tools import live_tools

pytestmark = pytest.mark.ray

FACTORY = "tests.pipeline.breakable_tool:"
TODAY = dt.date(2024, 7, 1)


def served(kind: str = "BreakableTool", **settings: Any) -> dict[str, ServedTool]:
    return {"Breakable": ServedTool(factory=FACTORY + kind, actors=1, **settings)}


def ask(tools: dict[str, ServedTool], *texts: str) -> list[ToolResult]:
    async def asked() -> list[ToolResult]:
        async with live_tools(tools, cache=None, address=None) as live:
            return [await live.ask(WrittenCall(f"Breakable({t})"), TODAY, 0) for t in texts]

    return asyncio.run(asked())


def test_an_actor_that_breaks_or_dies_of_a_call_answers_the_next(local_ray: None) -> None:
    broken, died, whole = ask(served(), "number", "die", "a")
    expected = "tool Breakable: document (batch): got a result of type int, expected text"
    assert (broken.status, broken.error) == (ToolStatus.FAILED, expected)
    assert died.status is ToolStatus.FAILED
    assert died.error is not None and "\n" not in died.error
    assert whole == ToolResult.ok("a")
    assert ray.is_initialized()  # the Ray of this process is not ours to end


def test_an_actor_that_hangs_is_late_and_what_waits_for_it_is_answered(local_ray: None) -> None:
    async def answers() -> list[ToolResult]:
        tools = served(timeout_s=2.0, batch_size=1)
        async with live_tools(tools, cache=None, address=None) as live:
            texts = (live.ask(WrittenCall(f"Breakable({t})"), TODAY, 0) for t in ("hang", "a", "b"))
            return await asyncio.gather(*texts)

    late = ToolResult(status=ToolStatus.TIMEOUT, error="no answer in 2 s")
    assert asyncio.run(answers()) == [late, ToolResult.ok("a"), ToolResult.ok("b")]


def test_an_actor_that_cannot_load_is_an_error_of_one_line(local_ray: None) -> None:
    with pytest.raises(ToolformerError) as raised:
        ask(served("LoadedTool", options={"loads": "no memory"}))
    assert str(raised.value) == "tool Breakable: cannot load: RuntimeError: no memory"
