"""A process that answers the calls of one tool, as a Ray actor or in the caller's own process."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import ray

from tools.base import (
    ContractError,
    LoadingTool,
    Tool,
    ToolformerError,
    ToolRequest,
    ToolResult,
    ToolStatus,
    has_pages,
    one_line,
    uses_date,
)
from tools.metrics import record_batch
from tools.registry import build_tool

# What anyone's code may raise. The last two, no Exceptions, would end the thread or the process
# that asks: argparse exits, and a library that runs an event loop may let a cancellation out.
_RAISED = (Exception, SystemExit, asyncio.CancelledError)


def answer(tool: Tool, requests: Sequence[ToolRequest]) -> list[ToolResult]:
    """One result for each request, in order. A request that breaks the tool fails alone.

    Raises:
        ContractError: the tool did not answer every request with a ToolResult, whose fields have
            the types they say.
        ToolformerError: whatever of this system's errors the tool raises; no retry mends those.
    """
    try:
        return _checked(tool, requests, tool.run(requests))
    except ToolformerError:
        raise
    except _RAISED as error:  # what it raises is its answer
        if len(requests) == 1:
            return [ToolResult.failed(f"{type(error).__name__}: {error}")]
        return [result for request in requests for result in answer(tool, [request])]


def _checked(
    tool: Tool, requests: Sequence[ToolRequest], results: Sequence[ToolResult]
) -> list[ToolResult]:
    if len(results) != len(requests):
        raise _broken(tool, f"{len(results)} results", str(len(requests)))
    for result in results:
        if not isinstance(result, ToolResult):
            raise _broken(tool, f"a {type(result).__name__}", "a ToolResult")
        if not isinstance(result.result, str | None):
            raise _broken(tool, f"a result of type {type(result.result).__name__}", "text")
        if not isinstance(result.error, str | None):
            raise _broken(tool, f"an error of type {type(result.error).__name__}", "text")
        if not isinstance(result.status, ToolStatus):
            raise _broken(tool, f"a status of type {type(result.status).__name__}", "a ToolStatus")
    return list(results)


def _broken(tool: Tool, got: str, expected: str) -> ContractError:
    return ContractError(stage=f"tool {tool.name}", doc_id="(batch)", got=got, expected=expected)


_BESIDE_THE_TOOL = "beside the tool"  # a thread that answers while the tool works or loads


class ToolInfo(NamedTuple):
    """What whoever asks a tool has to know of it."""

    version: str
    uses_date: bool
    pages: bool

    def plain(self, request: ToolRequest) -> ToolRequest:
        """`request` without what the tool does not use."""
        date = request.date if self.uses_date else None
        page = request.page if self.pages else 0
        if (date, page) == (request.date, request.page):
            return request
        return replace(request, date=date, page=page)


class Served(NamedTuple):
    """One result for each request, in order, and the time the tool took for all of them."""

    results: list[ToolResult]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHealth:
    """A process that serves a tool, as it is just now. It says so while a batch runs as well."""

    tool: str
    pid: int
    rss_bytes: int  # 0 where the system does not tell
    loaded: bool
    busy_s: float | None  # how long the batch it works on has been running; None when it waits
    requests: int  # answered by this process
    batches: int
    seconds: float  # in the tool
    statuses: dict[str, int]


class ToolHost:
    """A tool with what it loads, built where it runs.

    It is not built by the constructor: what fails in a call comes back from Ray as the exception
    it is, what fails in a constructor as text.
    """

    def __init__(self, name: str, factory: str | None, options: dict[str, Any]) -> None:
        self._name, self._factory, self._options = name, factory, options
        self._tool: Tool | None = None
        self._busy_since: float | None = None
        self._batches, self._seconds = 0, 0.0
        self._statuses: Counter[str] = Counter()

    def load(self) -> ToolInfo:
        """Build the tool and load what it loads, unless that is done.

        Raises:
            ToolformerError: it cannot be built or loaded.
        """
        if self._tool is None:
            tool = build_tool(self._name, factory=self._factory, options=self._options)
            if isinstance(tool, LoadingTool):
                _load(tool)
            self._tool = tool
        return ToolInfo(
            version=self._tool.version,
            uses_date=uses_date(self._tool),
            pages=has_pages(self._tool),
        )

    def run(self, requests: Sequence[ToolRequest]) -> Served | None:
        """The answers of the tool; None where it is not loaded: loading has no time limit.

        Raises:
            ToolformerError: as `answer`.
        """
        if self._tool is None:
            return None
        info = self.load()
        self._busy_since = started = time.perf_counter()
        try:
            results = answer(self._tool, [info.plain(request) for request in requests])
        finally:
            self._busy_since = None
            seconds = time.perf_counter() - started
            self._batches, self._seconds = self._batches + 1, self._seconds + seconds
        self._statuses.update(str(result.status) for result in results)
        record_batch(self._name, len(requests), seconds, _rss_bytes())
        return Served(results, seconds)

    def health(self) -> HostHealth:
        """How this process is; of an actor, `health_of` asks it."""
        since = self._busy_since
        return HostHealth(
            tool=self._name,
            pid=os.getpid(),
            rss_bytes=_rss_bytes(),
            loaded=self._tool is not None,
            busy_s=None if since is None else time.perf_counter() - since,
            requests=sum(dict(self._statuses).values()),
            batches=self._batches,
            seconds=self._seconds,
            statuses=dict(self._statuses),
        )


def _load(tool: LoadingTool) -> None:
    try:
        tool.load()
    except ToolformerError:
        raise
    except _RAISED as error:
        raise ToolformerError(
            f"tool {tool.name}: cannot load: {type(error).__name__}: {one_line(error)}"
        ) from error


def _rss_bytes() -> int:
    try:
        resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return 0
    return resident_pages * os.sysconf("SC_PAGE_SIZE")


# Restarts need no bound: a call that kills the process is asked a few times and then fails.
# num_cpus=0: Ray Data does not see actors outside its graph and would wait for their CPUs.
ToolActor = ray.remote(  # type: ignore[call-overload]
    num_cpus=0, max_restarts=-1, max_task_retries=0, concurrency_groups={_BESIDE_THE_TOOL: 1}
)(ToolHost)


def health_of(actor: Any) -> Any:
    """A reference to the HostHealth of a tool actor, which does not wait for what it works on."""
    return actor.health.options(concurrency_group=_BESIDE_THE_TOOL).remote()
