"""What a queue does when processes do not come back."""

import asyncio
from collections.abc import Mapping, Sequence

from pipeline.stages.tool_process import Lost
from pipeline.stages.tool_queue import QueueRules, ToolCall, ToolQueue
from tools.actors import Served
from tools.base import ToolformerError, ToolRequest, ToolResult
from tools.usage import ToolUsage

RULES = QueueRules(tool="Tool", batch_size=2, retries=2, timeout_s=1.0)


class Process:
    """Answers with the input, `answers` times; then it is lost, and never comes back."""

    def __init__(self, answers: int) -> None:
        self._answers = answers

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost:
        await asyncio.sleep(0)
        if not self._answers:
            return Lost.DIED
        self._answers -= 1
        return Served([ToolResult.ok(request.input) for request in batch], 0.1)

    async def until_back(self) -> None:
        raise ToolformerError("it does not come back")


class NothingKnown:
    async def known(
        self, requests: Sequence[ToolRequest], usage: ToolUsage
    ) -> Mapping[ToolRequest, ToolResult]:
        return {}

    async def keep(self, answers: Mapping[ToolRequest, ToolResult], usage: ToolUsage) -> None:
        pass


class BrokenStore(NothingKnown):
    async def keep(self, answers: Mapping[ToolRequest, ToolResult], usage: ToolUsage) -> None:
        raise ToolformerError("nothing can be kept")


def calls(*inputs: str) -> list[ToolCall]:
    loop = asyncio.get_running_loop()
    return [
        ToolCall(request=ToolRequest(input=text), usage=ToolUsage(), answer=loop.create_future())
        for text in inputs
    ]


async def outcomes(queue: ToolQueue, *inputs: str) -> list[str]:
    asked = calls(*inputs)
    queue.answer(asked, ToolUsage())
    done = await asyncio.wait_for(
        asyncio.gather(*(call.answer for call in asked), return_exceptions=True), timeout=10
    )
    return [outcome.result or "" if isinstance(outcome, ToolResult) else str(outcome)
            for outcome in done]  # fmt: skip


def test_the_processes_that_are_left_answer_for_those_that_are_gone() -> None:
    async def ask() -> list[str]:
        queue = ToolQueue(RULES, [Process(0), Process(100), Process(1)], NothingKnown())
        return await outcomes(queue, *"abcdefgh")

    assert asyncio.run(ask()) == list("abcdefgh")


def test_without_any_process_everything_that_waits_and_comes_later_is_the_error() -> None:
    async def ask() -> tuple[list[str], list[str]]:
        queue = ToolQueue(RULES, [Process(1), Process(0)], NothingKnown())
        return await outcomes(queue, *"abcdef"), await outcomes(queue, "later")

    first, later = asyncio.run(ask())
    assert first.count("it does not come back") == 4
    assert sorted(set(first)) == ["a", "b", "it does not come back"]
    assert later == ["it does not come back"]


def test_an_error_nobody_expects_reaches_all_that_wait() -> None:
    async def ask() -> list[str]:
        return await outcomes(ToolQueue(RULES, [Process(100)], BrokenStore()), *"abcd")

    assert asyncio.run(ask()) == ["nothing can be kept"] * 4


class SlowToLoad(Process):
    """Its process was killed while it had nothing to do, `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__(answers=100)
        self._times = times

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost:
        self._times -= 1
        return await super().answer(batch) if self._times < 0 else Lost.UNLOADED

    async def until_back(self) -> None:
        pass


def test_calls_that_meet_a_process_without_its_tool_wait_and_lose_nothing() -> None:
    async def ask() -> list[ToolCall]:
        queue = ToolQueue(RULES, [SlowToLoad(5)], NothingKnown())
        asked = calls(*"abc")
        queue.answer(asked, ToolUsage())
        await asyncio.wait_for(asyncio.gather(*(call.answer for call in asked)), timeout=10)
        return asked

    asked = asyncio.run(ask())
    assert [call.answer.result().result for call in asked] == list("abc")
    assert [(call.alone, call.deaths, call.retries) for call in asked] == [(False, 0, 0)] * 3
