"""The stage that asks the tools: every distinct call of a unit once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from ray.exceptions import RayActorError

from pipeline.execution import check_answers, distinct_requests, record_results
from pipeline.schemas import IN_FLIGHT, conform
from pipeline.stages.language_model import check_same_rows
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace
from tools.actors import ToolHost
from tools.base import ToolRequest, ToolResult, ToolStatus

_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAccess:
    """How one tool is reached: built here when there are no `actors`, else one of them."""

    name: str
    factory: str | None
    options: dict[str, Any]
    timeout_s: float
    actors: Sequence[Any] = field(default_factory=tuple)


class ExecuteStage:
    """IN_FLIGHT rows in and out, with status and result of every call."""

    def __init__(
        self,
        tools: Sequence[ToolAccess],
        model_path: str,
        revision: str | None,
        max_result_tokens: int,
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._here = {
            tool.name: ToolHost(tool.name, tool.factory, tool.options)
            for tool in tools
            if not tool.actors
        }
        self._codec = TokenCodec.load(model_path, revision=revision)
        self._max_result_tokens = max_result_tokens
        self._turn = 0

    async def __call__(self, unit: pa.Table) -> AsyncIterator[pa.Table]:
        conform(unit, IN_FLIGHT, stage="execute")
        started = time.perf_counter()
        wanted = distinct_requests(unit)
        answers = await asyncio.gather(*(self._ask(name, wanted[name]) for name in wanted))
        results = {
            name: check_answers(name, wanted[name], got)
            for name, got in zip(wanted, answers, strict=True)
        }
        executed = record_results(
            unit, results, self._codec, max_result_tokens=self._max_result_tokens
        )
        traced = add_trace(executed, "execute", time.perf_counter() - started)
        yield check_same_rows(unit, traced, stage="execute")

    async def _ask(self, name: str, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        batches = [requests[i : i + _BATCH] for i in range(0, len(requests), _BATCH)]
        answered = await asyncio.gather(*(self._ask_batch(name, batch) for batch in batches))
        return [result for batch in answered for result in batch]

    async def _ask_batch(self, name: str, batch: Sequence[ToolRequest]) -> list[ToolResult]:
        tool = self._tools[name]
        try:
            async with asyncio.timeout(tool.timeout_s):
                if not tool.actors:
                    return await asyncio.to_thread(self._here[name].run, batch)
                self._turn += 1
                actor = tool.actors[self._turn % len(tool.actors)]
                results: list[ToolResult] = await actor.run.remote(list(batch))
                return results
        except TimeoutError:
            late = ToolResult(status=ToolStatus.TIMEOUT, error=f"no answer in {tool.timeout_s} s")
            return [late] * len(batch)
        except RayActorError as error:
            died = f"the tool's process died: {type(error).__name__}"
            return [ToolResult.failed(died)] * len(batch)
