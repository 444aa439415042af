"""Asking a tool: equal requests once, what is known from memory or disk not at all."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.stages.careful import CarefulCalls
from pipeline.stages.tool_process import (
    ProcessHere,
    ProcessHereInTime,
    ProcessOfActor,
    ToolProcess,
    load_actors,
)
from pipeline.stages.tool_queue import QueueRules, ToolCall, ToolQueue
from tools.actors import ToolHost, ToolInfo
from tools.base import ToolRequest, ToolResult
from tools.metrics import record_usage
from tools.result_cache import ResultCache, is_kept
from tools.result_memory import ResultMemory
from tools.usage import ToolUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAccess:
    """How one tool is reached: built by the stage when there are no `actors`, else one of them.

    `num_gpus` and `num_cpus` are what each actor asked Ray for.
    """

    name: str
    factory: str | None
    options: dict[str, Any]
    timeout_s: float
    batch_size: int = 32
    retries: int = 2
    cache: Path | None = None  # a directory
    num_gpus: float = 0.0
    num_cpus: float = 0.0
    actors: Sequence[Any] = field(default_factory=tuple)


class ToolClient:
    """Asks one tool. Waiting for a free process does not count towards the timeout."""

    def __init__(
        self,
        access: ToolAccess,
        careful: CarefulCalls | None = None,
        *,
        in_time_here: bool = False,
    ) -> None:
        """Builds and loads the tool here when it has no actors, else waits until they have.

        `careful` sets requests apart that end the process they run in, if that is this one. With
        `in_time_here` the timeout holds here as well: what hangs goes on, but is not waited for.

        Raises:
            ToolformerError: the tool cannot be built or loaded; from an actor, as the cause of a
                RayTaskError.
        """
        self._name = access.name
        processes, self._info = _processes(access, careful, in_time_here)
        rules = QueueRules(
            tool=access.name,
            batch_size=access.batch_size,
            retries=access.retries,
            timeout_s=access.timeout_s,
        )
        cache = None
        if access.cache is not None:
            cache = ResultCache(access.cache, access.name, _cached_version(access, self._info))
        self._queue = ToolQueue(rules, processes, _DiskStore(cache))
        self._in_flight: dict[ToolRequest, ToolCall] = {}
        self._memory = ResultMemory()

    async def ask(
        self, requests: Sequence[ToolRequest], usage: ToolUsage | None = None
    ) -> list[ToolResult]:
        """One result for each request, in order. What they cost is counted into `usage`.

        Raises:
            ToolformerError: the tool broke its contract, or its last process is gone for good;
                from an actor, as the cause of a RayTaskError.
        """
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
        record_usage(self._name, usage)
        return [answers[request] for request in plain]

    def _calls(self, requests: Sequence[ToolRequest], usage: ToolUsage) -> list[ToolCall]:
        """What is on its way to answer `requests`, begun where nothing is."""
        new = [
            self._begin(request, usage) for request in requests if request not in self._in_flight
        ]
        usage.shared += len(requests) - len(new)
        if new:
            self._queue.answer(new, usage)
        return [self._in_flight[request] for request in requests]

    def _begin(self, request: ToolRequest, usage: ToolUsage) -> ToolCall:
        answer: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda ended: self._end(request, ended))
        call = self._in_flight[request] = ToolCall(request=request, usage=usage, answer=answer)
        return call

    def _end(self, request: ToolRequest, answer: asyncio.Future[ToolResult]) -> None:
        del self._in_flight[request]
        if not answer.cancelled() and answer.exception() is None and is_kept(answer.result()):
            self._memory.put(request, answer.result())


class _DiskStore:
    """The cache on disk, where there is one, without holding up the event loop."""

    def __init__(self, cache: ResultCache | None) -> None:
        self._cache = cache

    async def known(
        self, requests: Sequence[ToolRequest], usage: ToolUsage
    ) -> Mapping[ToolRequest, ToolResult]:
        if self._cache is None:
            return {}
        found = await asyncio.to_thread(self._cache.get, requests)
        self._take_warning(self._cache, usage)
        return found

    async def keep(self, answers: Mapping[ToolRequest, ToolResult], usage: ToolUsage) -> None:
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, answers)
            self._take_warning(self._cache, usage)

    def _take_warning(self, cache: ResultCache, usage: ToolUsage) -> None:
        warning = cache.take_warning()
        if warning is not None:
            usage.warnings.append(warning)


def _processes(
    access: ToolAccess, careful: CarefulCalls | None, in_time_here: bool
) -> tuple[Sequence[ToolProcess], ToolInfo]:
    assert careful is None or not in_time_here, "what is asked with care is waited for"
    if not access.actors:
        host = ToolHost(access.name, access.factory, access.options)
        here = ProcessHere(access.name, host, careful)
        return [ProcessHereInTime(here, access.timeout_s) if in_time_here else here], here.info
    info = load_actors(access.name, access.actors)
    return [
        ProcessOfActor(access.name, actor, info, access.timeout_s) for actor in access.actors
    ], info


def _cached_version(access: ToolAccess, info: ToolInfo) -> str:
    """What the answers on disk belong to; one's own tool may not change its version with them."""
    if access.factory is None:
        return info.version
    return json.dumps([info.version, access.factory, access.options], sort_keys=True, default=str)


async def _all_answered(answers: Sequence[asyncio.Future[ToolResult]]) -> None:
    """Return when all are there; raise the first error. Others may wait for the same answers."""
    if answers:
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_EXCEPTION)
        for answer in done:
            answer.result()
