"""One process that serves a tool, as the stage that asks it sees it: it answers, or is lost."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import Any, Protocol

import ray

from pipeline.engines.gone import GONE
from pipeline.stages.careful import CarefulCalls
from pipeline.stages.own_thread import OwnThread
from tools.actors import Served, ToolHost, ToolInfo
from tools.base import ConfigError, ToolformerError, ToolRequest, ToolResult, ToolStatus

# Until a process that died is back: a call that comes too early fails at once, a later one waits.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 8.0
# When the tool is loaded for the first time, the user looks on; later a cluster may need long to
# put another node in the place of one that went.
_LOADING_S, _RETURNING_S = 120.0, 1800.0


class Lost(Enum):
    """Why a batch has no answers: its process is gone, and `until_back` waits for the next."""

    DIED = "died"
    LATE = "late"
    UNLOADED = "unloaded"  # it went before the batch came, and the next has not loaded the tool


class ToolProcess(Protocol):
    """What answers batches of one tool, one batch at a time."""

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost: ...

    async def until_back(self) -> None: ...


class ProcessHere:
    """The caller's own process. It cannot be lost, and what hangs in it cannot be ended.

    The tool is built, loaded and asked in one thread: some libraries bind to the first they see.
    """

    def __init__(self, name: str, host: ToolHost, careful: CarefulCalls | None) -> None:
        """`careful` sets requests apart that end this process; without it they end it always."""
        self._name, self._host, self._careful = name, host, careful
        self._thread = OwnThread(f"tool {name}")
        self.info: ToolInfo = self._thread.submit(host.load).result()

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost:
        if self._careful is None:
            return await self._run(batch)
        return await self._careful.answer(self._name, batch, self._run)

    async def _run(self, batch: Sequence[ToolRequest]) -> Served:
        return await asyncio.wrap_future(self.begin(batch))

    def begin(self, batch: Sequence[ToolRequest]) -> Future[Served]:
        """The answers to a batch, once the thread has worked on it."""

        def run() -> Served:
            served = self._host.run(batch)
            assert served is not None, "loaded by the constructor"
            return served

        return self._thread.submit(run)

    async def until_idle(self) -> None:
        """Wait until the thread has nothing left to do."""
        await asyncio.wrap_future(self._thread.submit(lambda: None))

    async def until_back(self) -> None:
        raise AssertionError("the caller's own process is not lost")


class ProcessHereInTime:
    """The caller's own process where nobody waits for a batch for longer than `timeout_s`.

    A batch that takes longer is answered "timeout" and goes on, since it cannot be ended. The
    process has as long again to be done with it; from then on, while it is not, what else is asked
    is answered "timeout" at once. It is used again when it is done.
    """

    def __init__(self, here: ProcessHere, timeout_s: float) -> None:
        self._here, self._timeout_s = here, timeout_s
        self._late: Future[Served] | None = None  # what was begun last, if it was given up
        self._given_up = 0.0  # when

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost:
        if self._late is not None and not await self._is_done_by_now(self._late):
            return _unanswered(batch, "not asked: the tool hangs in an earlier call")
        self._late = None
        running = self._here.begin(batch)
        await self._until_idle(self._timeout_s)
        if running.done():  # a busy event loop sees the answer and the end of the time at once
            return running.result()
        self._late, self._given_up = running, time.monotonic()
        return _unanswered(batch, no_answer(self._timeout_s))

    async def _is_done_by_now(self, late: Future[Served]) -> bool:
        left_s = self._given_up + self._timeout_s - time.monotonic()
        if not late.done() and left_s > 0:
            await self._until_idle(left_s)
        return late.done()

    async def _until_idle(self, longest_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest_s):
                await self._here.until_idle()

    async def until_back(self) -> None:
        await self._here.until_back()


class ProcessOfActor:
    """A tool actor. One that hangs is ended; Ray starts a process in its place."""

    def __init__(self, name: str, actor: Any, info: ToolInfo, timeout_s: float) -> None:
        self._name, self._actor, self._info, self._timeout_s = name, actor, info, timeout_s

    async def answer(self, batch: Sequence[ToolRequest]) -> Served | Lost:
        """The answers to a batch, or why there are none.

        Raises:
            RayTaskError: around a ToolformerError that the tool raised.
        """
        running = self._actor.run.remote(list(batch))
        try:
            served = await self._in_time(running)
        except TimeoutError:
            # It hangs, or works on what nobody waits for: the next batch needs a fresh process.
            ray.kill(self._actor, no_restart=False)
            return Lost.LATE
        except GONE:
            return Lost.DIED
        return Lost.UNLOADED if served is None else served

    async def _in_time(self, running: Any) -> Served | None:
        served: Served | None
        try:
            async with asyncio.timeout(self._timeout_s):
                served = await running
        except TimeoutError:
            # A busy event loop sees the answer and the end of the time at once.
            ready, _ = ray.wait([running], timeout=0, fetch_local=False)
            if not ready:
                raise
            served = await running
        return served

    async def until_back(self) -> None:
        """Wait until the process has been started again and has loaded its tool.

        Raises:
            ToolformerError: it does not come back, or with another version of the tool.
        """
        for pause_s in _pauses(_RETURNING_S):
            try:
                info = await self._actor.load.remote()
            except GONE:
                await asyncio.sleep(pause_s)
                continue
            if info != self._info:
                raise _differ(self._name, self._info, info)
            return
        raise _not_back(self._name, _RETURNING_S)


def no_answer(timeout_s: float) -> str:
    """The error of a call that has the status "timeout"."""
    return f"no answer in {timeout_s:g} s"


def _unanswered(batch: Sequence[ToolRequest], error: str) -> Served:
    return Served([ToolResult(status=ToolStatus.TIMEOUT, error=error)] * len(batch), 0.0)


def load_actors(name: str, actors: Sequence[Any]) -> ToolInfo:
    """What the actors of a tool serve; returns when all have loaded it.

    Raises:
        ToolformerError: they serve different versions, or one of them dies of loading.
        RayTaskError: one cannot load; its cause is the ToolformerError that says why.
    """
    loading = [actor.load.remote() for actor in actors]
    first, *others = [
        _loaded(name, actor, call) for actor, call in zip(actors, loading, strict=True)
    ]
    for info in others:
        if info != first:
            raise _differ(name, first, info)
    return first


def _loaded(name: str, actor: Any, loading: Any) -> ToolInfo:
    for pause_s in _pauses(_LOADING_S):
        try:
            info: ToolInfo = ray.get(loading)
            return info
        except GONE:
            time.sleep(pause_s)
            loading = actor.load.remote()
    raise _not_back(name, _LOADING_S)


def _pauses(total_s: float) -> Iterator[float]:
    """Between looks, until `total_s` are over: short ones first."""
    begun, pause_s = time.monotonic(), _FIRST_PAUSE_S
    while time.monotonic() - begun < total_s:
        yield pause_s
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _differ(name: str, one: ToolInfo, other: ToolInfo) -> ConfigError:
    return ConfigError(
        f"tool {name}: served as version {one.version} and as {other.version}; its files have "
        "changed, or differ between the nodes"
    )


def _not_back(name: str, waited_s: float) -> ToolformerError:
    return ToolformerError(
        f"tool {name}: its process was not back after {waited_s:.0f} s: it dies of loading, "
        "or finds no place; see what it needs (memory, files, num_gpus, num_cpus), and run the "
        "same command again to continue"
    )
