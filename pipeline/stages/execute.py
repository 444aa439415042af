"""The stage that asks the tools: every distinct call of a unit once."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from pipeline.execution import distinct_requests, record_results
from pipeline.schemas import IN_FLIGHT, conform
from pipeline.stages.careful import CarefulCalls
from pipeline.stages.deaths import BoundedDeaths
from pipeline.stages.failure import carried
from pipeline.stages.language_model import check_same_rows
from pipeline.stages.tool_access import ToolAccess, ToolClient
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace
from tools.usage import ToolUsage


class ExecuteStage:
    """IN_FLIGHT rows in and out, with status and result of every call."""

    def __init__(
        self,
        tools: Sequence[ToolAccess],
        model_path: str,
        revision: str | None,
        max_result_tokens: int,
        dispatcher: Any,
    ) -> None:
        """`dispatcher` keeps what was begun in this process; see CarefulCalls."""
        careful = CarefulCalls(dispatcher)
        self._clients = {access.name: ToolClient(access, careful) for access in tools}
        self._deaths = BoundedDeaths("execute", dispatcher)
        self._codec = TokenCodec.load(model_path, revision=revision)
        self._max_result_tokens = max_result_tokens

    async def __call__(self, unit: pa.Table) -> AsyncIterator[pa.Table]:
        with carried():
            yield await self._executed(unit)

    async def _executed(self, unit: pa.Table) -> pa.Table:
        conform(unit, IN_FLIGHT, stage="execute")
        started = time.perf_counter()
        wanted = distinct_requests(unit)
        usages = {name: ToolUsage() for name in wanted}
        answers = await asyncio.gather(
            *(self._clients[name].ask(wanted[name], usages[name]) for name in wanted)
        )
        results = {
            name: dict(zip(wanted[name], got, strict=True))
            for name, got in zip(wanted, answers, strict=True)
        }
        # Not around the tools as well: what dies of a call is found by it, see CarefulCalls.
        async with self._deaths.at_work(*_name_of(unit)):
            executed = record_results(
                unit, results, self._codec, max_result_tokens=self._max_result_tokens
            )
        traced = add_trace(
            executed,
            "execute",
            time.perf_counter() - started,
            tools={name: asdict(usage) for name, usage in usages.items()},
        )
        return check_same_rows(unit, traced, stage="execute")


def _name_of(unit: pa.Table) -> tuple[str, str]:
    """The id of a unit, and what a user finds it by."""
    unit_id, documents = unit.column("unit_id")[0].as_py(), unit.column("doc_id")
    last = unit.num_rows - 1
    return unit_id, f"unit {unit_id} (documents {documents[0]} to {documents[last]})"
