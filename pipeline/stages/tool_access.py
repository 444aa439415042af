"""Asking a tool: equal requests once, in batches of whatever waits, poison calls apart.

A request is answered from memory, from disk, or by the tool. Requests of all units in a stage
wait in one queue; a process that is free takes up to a batch of them, so that units share batches
while the tool is busy and nothing waits while it is not.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.stages.tool_process import (
    Lost,
    ProcessHere,
    ProcessOfActor,
    ToolProcess,
    load_actors,
)
from tools.actors import ToolHost, ToolInfo
from tools.base import ToolRequest, ToolResult, ToolStatus
from tools.metrics import record_usage, record_waiting
from tools.result_cache import ResultCache, is_kept
from tools.result_memory import ResultMemory
from tools.usage import ToolUsage

_FIRST_PAUSE_S = 0.5  # before a retry; the next is twice as long
_LONGEST_PAUSE_S = 8.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAccess:
    """How one tool is reached: built by the stage when there are no `actors`, else one of them.

    `num_gpus` and `num_cpus` are what each actor asked Ray for.

    `sharers` is how many stages ask the same actors: an actor may have a batch of each waiting.
    """

    name: str
    factory: str | None
    options: dict[str, Any]
    timeout_s: float
    batch_size: int = 32
    retries: int = 2
    cache: Path | None = None  # a directory
    sharers: int = 1
    num_gpus: float = 0.0
    num_cpus: float = 0.0
    actors: Sequence[Any] = field(default_factory=tuple)


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """A request on its way, and all that wait for its answer."""

    request: ToolRequest
    usage: ToolUsage  # of the unit that asked first
    answer: asyncio.Future[ToolResult]
    alone: bool = False  # not in a batch with others: one of them may have ended a process
    deaths: int = 0  # of processes that were asked it
    retries: int = 0


class ToolClient:
    """Asks one tool. Waiting for a free process does not count towards the timeout."""

    def __init__(self, access: ToolAccess) -> None:
        """Builds and loads the tool here when it has no actors, else waits until they have.

        Raises:
            ToolformerError: the tool cannot be built or loaded; from an actor, as the cause of a
                RayTaskError.
        """
        self._access = access
        processes, self._info = _processes(access)
        self._free: deque[ToolProcess] = deque(processes)
        self._num_processes = len(processes)
        self._waiting: deque[_Call] = deque()
        self._in_flight: dict[ToolRequest, _Call] = {}
        self._memory = ResultMemory()
        self._disk = access.cache and ResultCache(access.cache, access.name, self._info.version)
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: BaseException | None = None

    async def ask(
        self, requests: Sequence[ToolRequest], usage: ToolUsage | None = None
    ) -> list[ToolResult]:
        """One result for each request, in order. What they cost is counted into `usage`.

        Raises:
            ToolformerError: the tool broke its contract, or its last process is gone for good;
                from an actor, as the cause of a RayTaskError.
        """
        if self._broken is not None:
            raise self._broken
        usage = ToolUsage() if usage is None else usage
        plain = [self._info.plain(request) for request in requests]
        distinct = list(dict.fromkeys(plain))
        answers = {
            request: answer
            for request in distinct
            if (answer := self._memory.get(request)) is not None
        }
        calls = self._calls([request for request in distinct if request not in answers], usage)
        await _all_answered([call.answer for call in calls])
        answers |= {call.request: call.answer.result() for call in calls}
        usage.requests += len(distinct)
        usage.from_memory += len(distinct) - len(calls)
        usage.add_statuses(str(answer.status) for answer in answers.values())
        record_usage(self._access.name, usage)
        return [answers[request] for request in plain]

    def _calls(self, requests: Sequence[ToolRequest], usage: ToolUsage) -> list[_Call]:
        """What is on its way to answer `requests`, begun where nothing is."""
        loop = asyncio.get_running_loop()
        new = [
            _Call(request=request, usage=usage, answer=loop.create_future())
            for request in requests
            if request not in self._in_flight
        ]
        usage.shared += len(requests) - len(new)
        for call in new:
            self._in_flight[call.request] = call
        if new:
            self._start(self._look_up(new, usage))
        return [self._in_flight[request] for request in requests]

    async def _look_up(self, calls: Sequence[_Call], usage: ToolUsage) -> None:
        """Answer from disk what is known there; the rest waits for the tool."""
        known: dict[ToolRequest, ToolResult] = {}
        if self._disk:
            known = await asyncio.to_thread(self._disk.get, [call.request for call in calls])
            self._take_warning(usage)
        usage.from_disk += len(known)
        for call in calls:
            if call.request in known:
                self._settle(call, known[call.request])
            else:
                self._waiting.append(call)
        self._dispatch()

    def _dispatch(self) -> None:
        """Give the free processes what waits."""
        while self._free and self._waiting:
            batch = [self._waiting.popleft()]
            while (
                self._waiting
                and len(batch) < self._access.batch_size
                and not batch[0].alone
                and not self._waiting[0].alone
            ):
                batch.append(self._waiting.popleft())
            self._start(self._serve(self._free.popleft(), batch))
        record_waiting(self._access.name, len(self._waiting))

    async def _serve(self, process: ToolProcess, batch: Sequence[_Call]) -> None:
        """Everything that becomes of one batch."""
        try:
            served = await process.answer([call.request for call in batch])
        except Exception as error:  # of the contract: it ends the run
            self._release(process)
            for call in batch:
                self._settle(call, error)
            return
        if isinstance(served, Lost):
            batch[0].usage.restarts += 1
            unanswered = self._ask_alone(batch, served)
            await self._bring_back(process)
            for call in unanswered:
                self._settle(call, _without_answer(served, self._access.timeout_s))
        else:
            self._release(process)
            batch[0].usage.add_batch(len(batch), served.seconds)
            await self._take_answers(batch, served.results)

    def _ask_alone(self, batch: Sequence[_Call], lost: Lost) -> list[_Call]:
        """The calls of a lost batch that are not asked again; the others are, one by one."""
        unanswered = []
        for call in batch:
            call.deaths += lost is Lost.DIED
            # In a batch of several it need not have been this one: it is always asked once more.
            again = lost is Lost.DIED and call.deaths <= self._access.retries
            if len(batch) > 1 or again:
                call.alone = True
                call.usage.retries += 1
                self._waiting.append(call)
            else:
                unanswered.append(call)
        self._dispatch()
        return unanswered

    async def _bring_back(self, process: ToolProcess) -> None:
        try:
            await process.until_back()
        except Exception as error:
            _logger.warning("tool %s: a process is gone: %s", self._access.name, error)
            self._num_processes -= 1
            if not self._num_processes:
                self._give_up(error)
        else:
            self._release(process)

    async def _take_answers(self, batch: Sequence[_Call], results: Sequence[ToolResult]) -> None:
        """Answer whoever waits, after what is kept is on disk; ask again what may mend itself."""
        final: dict[_Call, ToolResult] = {}
        for call, result in zip(batch, results, strict=True):
            if result.retryable and call.retries < self._access.retries:
                self._start(self._ask_later(call))
            else:
                final[call] = result
        if self._disk and final:
            answers = {call.request: result for call, result in final.items()}
            await asyncio.to_thread(self._disk.put, answers)
            self._take_warning(batch[0].usage)
        for call, result in final.items():
            self._settle(call, result)

    async def _ask_later(self, call: _Call) -> None:
        pause_s = min(_FIRST_PAUSE_S * 2**call.retries, _LONGEST_PAUSE_S)
        call.retries += 1
        call.usage.retries += 1
        await asyncio.sleep(pause_s)
        self._waiting.append(call)
        self._dispatch()

    def _release(self, process: ToolProcess) -> None:
        self._free.append(process)
        self._dispatch()

    def _settle(self, call: _Call, outcome: ToolResult | BaseException) -> None:
        self._in_flight.pop(call.request, None)
        if call.answer.done():
            return
        if isinstance(outcome, BaseException):
            call.answer.set_exception(outcome)
            call.answer.exception()  # whoever waited may be gone
            return
        if is_kept(outcome):
            self._memory.put(call.request, outcome)
        call.answer.set_result(outcome)

    def _give_up(self, error: BaseException) -> None:
        """Nothing can be answered any more."""
        self._broken = error
        self._waiting.clear()
        for call in list(self._in_flight.values()):
            self._settle(call, error)

    def _take_warning(self, usage: ToolUsage) -> None:
        warning = self._disk.take_warning() if self._disk else None
        if warning is not None:
            usage.warnings.append(warning)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._give_up(error)


def _processes(access: ToolAccess) -> tuple[Sequence[ToolProcess], ToolInfo]:
    if not access.actors:
        here = ProcessHere(ToolHost(access.name, access.factory, access.options))
        return [here], here.info
    info = load_actors(access.name, access.actors)
    timeout_s = access.timeout_s * access.sharers
    return [ProcessOfActor(access.name, actor, info, timeout_s) for actor in access.actors], info


async def _all_answered(answers: Sequence[asyncio.Future[ToolResult]]) -> None:
    """Return when all are there; raise the first error. Others may wait for the same answers."""
    if answers:
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_EXCEPTION)
        for answer in done:
            answer.result()


def _without_answer(lost: Lost, timeout_s: float) -> ToolResult:
    if lost is Lost.LATE:
        return ToolResult(status=ToolStatus.TIMEOUT, error=f"no answer in {timeout_s} s")
    return ToolResult.failed("the tool's process died of this call")
