import asyncio
import datetime as dt
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import ray

from pipeline.tool_config import ServedTool
from tools.base import ConfigError, ToolformerError, ToolRequest, ToolResult, ToolStatus
from training.generate.brackets import WrittenCall
from training.generate.live_tools import LiveTools, live_tools

BREAKABLE = "tests.pipeline.breakable_tool:BreakableTool"
LOADED = "tests.pipeline.breakable_tool:LoadedTool"
MONDAY = dt.date(2024, 7, 1)

Result = TypeVar("Result")


def asked(
    tools: dict[str, ServedTool], conversation: Callable[[LiveTools], Awaitable[Result]]
) -> Result:
    """What comes of asking the tools."""

    async def loaded() -> Result:
        async with live_tools(tools, cache=None, address=None) as live:
            return await conversation(live)

    return asyncio.run(loaded())


def ask(tools: dict[str, ServedTool], *texts: str, page: int = 0) -> list[ToolResult]:
    """The answers to calls that are made one after the other."""

    async def in_turn(live: LiveTools) -> list[ToolResult]:
        return [await live.ask(WrittenCall(text), MONDAY, page) for text in texts]

    return asked(tools, in_turn)


async def of_one(live: LiveTools, text: str) -> ToolResult:
    return await live.ask(WrittenCall(f"Breakable({text})"), MONDAY, 0)


async def at_once(live: LiveTools, inputs: Sequence[str]) -> list[ToolResult]:
    """The answers to calls of as many texts."""
    return await asyncio.gather(*(of_one(live, text) for text in inputs))


def timeout(error: str) -> ToolResult:
    return ToolResult(status=ToolStatus.TIMEOUT, error=error)


def breakable(**settings: Any) -> dict[str, ServedTool]:
    return {
        "Breakable": ServedTool(factory=BREAKABLE, **settings),
        "Calculator": ServedTool(),
    }


def test_a_tool_answers_and_no_ray_is_started_for_it() -> None:
    assert ask(breakable(), "Calculator(1 + 2)", "Breakable(a)") == [
        ToolResult.ok("3"),
        ToolResult.ok("a"),
    ]
    assert not ray.is_initialized()


def test_an_address_that_no_tool_needs_is_said_to_be_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def without_actors(address: str | None) -> None:
        async with live_tools(breakable(), cache=None, address=address):
            pass

    asyncio.run(without_actors(None))
    assert caplog.messages == []
    asyncio.run(without_actors("nowhere:6379"))
    assert caplog.messages == ["--address nowhere:6379: not used, as no tool has actors"]


def test_a_cache_that_cannot_be_kept_is_said_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def several() -> None:
        async with live_tools(breakable(), cache=tmp_path / "file", address=None) as live:
            assert await at_once(live, "ab") == [ToolResult.ok("a"), ToolResult.ok("b")]
            assert await of_one(live, "c") == ToolResult.ok("c")

    (tmp_path / "file").write_text("")
    asyncio.run(several())
    (message,) = caplog.messages
    assert message.startswith(f"tool_cache: {tmp_path / 'file'}")
    assert message.endswith("results of this tool are not cached on disk any more")


def test_a_call_of_no_tool_says_which_there_are() -> None:
    (answer,) = ask(breakable(), "QA(who)")
    assert answer == ToolResult.invalid("no tool is called 'QA'; there are Breakable, Calculator")
    (answer,) = ask({}, "QA(who)")
    assert answer == ToolResult.invalid("no tool is called 'QA'; there are no tools")


def test_what_is_no_whole_call_is_not_asked() -> None:
    (answer,) = ask(breakable(), "Calculator(1")
    assert answer == ToolResult.invalid(
        "'Calculator(1' is not Name(input) alone; there are Breakable, Calculator"
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("raise", "RuntimeError: told to"),
        ("exit", "SystemExit: told to"),
        ("down", "not there yet"),
        ("starting", "not there yet"),  # it would mend itself, but nobody waits so long
        ("number", "tool Breakable: document (batch): got a result of type int, expected text"),
    ],
)
def test_a_tool_that_breaks_has_failed(text: str, error: str) -> None:
    broken, whole = ask(breakable(), f"Breakable({text})", "Breakable(a)")
    assert (broken.status, broken.error) == (ToolStatus.FAILED, error)
    assert whole == ToolResult.ok("a")


def test_no_answer_in_time_is_said_so() -> None:
    late, other = ask(breakable(timeout_s=0.1), "Breakable(slow)", "Calculator(1 + 2)")
    assert late == timeout("no answer in 0.1 s")
    assert other == ToolResult.ok("3")


def test_what_a_busy_tool_makes_a_text_wait_is_not_its_time() -> None:
    inputs = [f"wait {number}" for number in range(75)]  # 1.5 s in all, 0.02 s a batch
    assert asked(breakable(timeout_s=1.0, batch_size=1), lambda live: at_once(live, inputs)) == [
        ToolResult.ok(text) for text in inputs
    ]


class GatedTool:
    """Answers an input with itself; at "hang", not before its gate is open."""

    name = "Breakable"
    version = "1"

    def __init__(self) -> None:
        self.gate, self.is_hanging = threading.Event(), threading.Event()
        self.inputs: list[str] = []

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        for request in requests:
            self.inputs.append(request.input)
            if request.input == "hang":
                self.is_hanging.set()
                self.gate.wait()
        return [ToolResult.ok(request.input) for request in requests]


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> GatedTool:
    tool = GatedTool()
    monkeypatch.setitem(globals(), "the_gated_tool", lambda: tool)
    return tool


def hanging(timeout_s: float) -> dict[str, ServedTool]:
    factory = f"{__name__}:the_gated_tool"
    return {"Breakable": ServedTool(factory=factory, timeout_s=timeout_s, batch_size=1)}


def test_nobody_waits_long_for_a_tool_that_hangs_and_it_is_used_when_it_is_back(
    gated: GatedTool,
) -> None:
    async def conversation(live: LiveTools) -> None:
        late, *others = await at_once(live, ["hang", "a", "b"])
        assert late == timeout("no answer in 0.2 s")
        assert others == [timeout("not asked: the tool hangs in an earlier call")] * 2
        assert gated.inputs == ["hang"]
        gated.gate.set()
        while (answer := await of_one(live, "a")).status is ToolStatus.TIMEOUT:
            await asyncio.sleep(0.01)
        assert answer == ToolResult.ok("a")

    asked(hanging(0.2), conversation)


def test_what_waits_behind_a_late_call_is_asked_when_that_ends_after_all(gated: GatedTool) -> None:
    async def conversation(live: LiveTools) -> None:
        late, waiting = (asyncio.create_task(of_one(live, text)) for text in ("hang", "a"))
        assert await late == timeout("no answer in 1 s")
        gated.gate.set()
        assert await waiting == ToolResult.ok("a")

    asked(hanging(1.0), conversation)


def test_an_answer_in_time_counts_however_late_it_is_seen(gated: GatedTool) -> None:
    async def conversation(live: LiveTools) -> None:
        answer = asyncio.create_task(of_one(live, "hang"))
        await asyncio.to_thread(gated.is_hanging.wait)
        gated.gate.set()
        time.sleep(1.1)  # what else is computed in the event loop
        assert await answer == ToolResult.ok("hang")

    asked(hanging(1.0), conversation)


def test_a_tool_is_told_the_date_and_the_page() -> None:
    options = {"uses_date": True, "pages": True}
    tools = {"Breakable": ServedTool(factory=LOADED, options=options)}
    assert ask(tools, "Breakable(a)", page=2) == [ToolResult.ok("1 2024-07-01 page 2")]


def test_a_tool_that_cannot_be_loaded_is_an_error_at_the_start() -> None:
    broken = {"Breakable": ServedTool(factory=LOADED, options={"loads": "no memory"})}
    with pytest.raises(ToolformerError, match=r"^tool Breakable: cannot load: .*no memory$"):
        ask(broken)
    with pytest.raises(ConfigError, match=r"^tool Calculate: no such tool, did you mean"):
        ask({"Calculate": ServedTool()})
