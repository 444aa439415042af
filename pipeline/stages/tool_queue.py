"""What waits for the processes of one tool: batches, repetitions, and poison calls apart.

The calls of all units in a stage wait in one queue. A process that is free takes up to a batch of
them, so that units share batches while the tool is busy and nothing waits while it is not.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pipeline.stages.careful import DIED_OF_CALL
from pipeline.stages.tool_process import Lost, ToolProcess, no_answer
from tools.base import ToolRequest, ToolResult, ToolStatus
from tools.metrics import record_waiting
from tools.usage import ToolUsage

_FIRST_PAUSE_S = 0.5  # before a retry; the next is twice as long
_LONGEST_PAUSE_S = 8.0

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class ToolCall:
    """A request on its way, and the future of all that wait for its answer."""

    request: ToolRequest
    usage: ToolUsage  # of the unit that asked first
    answer: asyncio.Future[ToolResult]
    alone: bool = False  # not in a batch with others: one of them may have ended a process
    deaths: int = 0  # of processes that were asked it
    retries: int = 0  # because its answer was retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRules:
    """How the processes of a tool are asked."""

    tool: str
    batch_size: int
    retries: int
    timeout_s: float


class Store(Protocol):
    """Answers of other runs, and for them."""

    async def known(
        self, requests: Sequence[ToolRequest], usage: ToolUsage
    ) -> Mapping[ToolRequest, ToolResult]: ...

    async def keep(self, answers: Mapping[ToolRequest, ToolResult], usage: ToolUsage) -> None: ...


class ToolQueue:
    """Answers calls from `store` or, with what is not known there, by `processes`."""

    def __init__(self, rules: QueueRules, processes: Sequence[ToolProcess], store: Store) -> None:
        self._rules = rules
        self._free = deque(processes)
        self._num_processes = len(processes)
        self._store = store
        self._waiting: deque[ToolCall] = deque()
        self._unanswered: set[ToolCall] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: BaseException | None = None

    def answer(self, calls: Sequence[ToolCall], usage: ToolUsage) -> None:
        """Answer the calls of one unit, in time; with an exception where the run has to stop."""
        self._unanswered.update(calls)
        self._start(self._look_up(calls, usage))

    async def _look_up(self, calls: Sequence[ToolCall], usage: ToolUsage) -> None:
        known = await self._store.known([call.request for call in calls], usage)
        usage.from_disk += len(known)
        for call in calls:
            if call.request in known:
                self._answer(call, known[call.request])
        self._add(call for call in calls if call.request not in known)

    def _add(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            if self._broken is None:
                self._waiting.append(call)
            else:
                self._fail(call, self._broken)
        self._dispatch()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._give_up(error)

    def _dispatch(self) -> None:
        """Give the free processes what waits."""
        while self._free and self._waiting:
            batch = [self._waiting.popleft()]
            while (
                self._waiting
                and len(batch) < self._rules.batch_size
                and not batch[0].alone
                and not self._waiting[0].alone
            ):
                batch.append(self._waiting.popleft())
            self._start(self._serve(self._free.popleft(), batch))
        record_waiting(self._rules.tool, len(self._waiting))

    async def _serve(self, process: ToolProcess, batch: Sequence[ToolCall]) -> None:
        """Everything that becomes of one batch."""
        try:
            served = await process.answer([call.request for call in batch])
        except Exception as error:  # the tool broke its contract: it ends the run
            for call in batch:
                self._fail(call, error)
            self._release(process)
            return
        if isinstance(served, Lost):
            batch[0].usage.restarts += 1
            unanswered = self._ask_alone(batch, served)
            await self._bring_back(process)
            for call in unanswered:
                self._answer(call, self._of_lost(served))
        else:
            self._release(process)
            batch[0].usage.add_batch(len(batch), served.seconds)
            await self._take_answers(batch, served.results)

    def _ask_alone(self, batch: Sequence[ToolCall], lost: Lost) -> list[ToolCall]:
        """The calls of a lost batch that are not asked again; the others are, one by one."""
        if lost is Lost.UNLOADED:  # none of them was asked
            self._add(batch)
            return []
        unanswered, again = [], []
        for call in batch:
            call.deaths += lost is Lost.DIED
            # In a batch of several it need not have been this one: it is always asked once more.
            if len(batch) > 1 or (lost is Lost.DIED and call.deaths <= self._rules.retries):
                call.alone = True
                call.usage.retries += 1
                again.append(call)
            else:
                unanswered.append(call)
        self._add(again)
        return unanswered

    async def _bring_back(self, process: ToolProcess) -> None:
        try:
            await process.until_back()
        except Exception as error:
            _logger.warning("tool %s: a process is gone: %s", self._rules.tool, error)
            self._num_processes -= 1
            if not self._num_processes:
                self._give_up(error)
        else:
            self._release(process)

    async def _take_answers(self, batch: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        final: dict[ToolCall, ToolResult] = {}
        for call, result in zip(batch, results, strict=True):
            if result.retryable and call.retries < self._rules.retries:
                self._start(self._ask_later(call))
            else:
                final[call] = result
        answers = {call.request: result for call, result in final.items()}
        await self._store.keep(answers, batch[0].usage)
        for call, result in final.items():
            self._answer(call, result)

    async def _ask_later(self, call: ToolCall) -> None:
        pause_s = min(_FIRST_PAUSE_S * 2**call.retries, _LONGEST_PAUSE_S)
        call.retries += 1
        call.usage.retries += 1
        await asyncio.sleep(pause_s)
        self._add([call])

    def _release(self, process: ToolProcess) -> None:
        self._free.append(process)
        self._dispatch()

    def _of_lost(self, lost: Lost) -> ToolResult:
        if lost is Lost.LATE:
            return ToolResult(status=ToolStatus.TIMEOUT, error=no_answer(self._rules.timeout_s))
        return ToolResult.failed(DIED_OF_CALL)

    def _give_up(self, error: BaseException) -> None:
        self._broken = error
        self._waiting.clear()
        for call in list(self._unanswered):
            self._fail(call, error)

    def _answer(self, call: ToolCall, result: ToolResult) -> None:
        self._unanswered.discard(call)
        if not call.answer.done():
            call.answer.set_result(result)

    def _fail(self, call: ToolCall, error: BaseException) -> None:
        self._unanswered.discard(call)
        if not call.answer.done():
            call.answer.set_exception(error)
