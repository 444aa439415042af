"""A unit annotated whatever dies of it: the documents that kill their process are set apart.

A unit that was lost with its replica is asked again elsewhere. Lost twice, it is examined: its
documents are asked alone, on a replica that does nothing else, and one that kills two processes
is dropped as KILLS_PROCESS. What is left is asked again as a whole, so that its bytes depend on
the unit and on these documents alone, not on what else died. If that kills two processes more,
it is dropped as KILLS_TOGETHER.

A unit of D documents ends at most 4 processes in a stage, and two more for each document that
is dropped. Where a network breaks again and again and nothing dies, a document is asked _TRIES
times at most and dropped as UNREACHABLE.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from pipeline.engines.gone import ReplicaLost
from pipeline.engines.metrics import count_asked_again, count_isolated
from pipeline.failures import KILLS_PROCESS, KILLS_TOGETHER, UNREACHABLE
from pipeline.schemas import IN_FLIGHT
from pipeline.trace import add_trace

Ask = Callable[[pa.Table, bool], Awaitable[pa.Table]]
Died = Callable[[ReplicaLost], Awaitable[bool]]
Row = dict[str, Any]

_DEATHS = 2  # one may be chance
# Losses of all kinds, of which it is not known that a process died.
_TRIES = 10

_logger = logging.getLogger(__name__)


class Isolation:
    """Annotates units by `ask(unit, alone)`, which raises ReplicaLost.

    `died` tells whether a process that was lost is no more; it may take its time.
    """

    def __init__(self, stage: Literal["sample", "score"], ask: Ask, died: Died) -> None:
        self._stage, self._ask, self._died = stage, ask, died

    async def annotated(self, unit: pa.Table) -> pa.Table:
        """The unit with what was found, or with the reason why not, for each document."""
        for _ in range(_DEATHS):
            try:
                return await self._ask(unit, False)
            except ReplicaLost as lost:
                # Dead or out of reach: the next replica answers before that is known.
                self._tell(unit, lost)
        started = time.perf_counter()
        isolated = await self._isolated(unit)
        return add_trace(isolated, f"isolate_{self._stage}", time.perf_counter() - started)

    async def _isolated(self, unit: pa.Table) -> pa.Table:
        rows: list[Row] = unit.to_pylist()
        failed: dict[int, str] = {}
        apart: set[int] = set()
        for document in _documents(rows):
            if any(self._has_work(rows[index]) for index in document):
                answer = await self._survives(unit.slice(document[0], len(document)))
                if isinstance(answer, str):
                    apart.update(document)
                    failed |= {index: answer for index in document if self._fails(rows[index])}
        others = [index for index in range(len(rows)) if index not in apart]
        answer = await self._survives(unit.take(others)) if others else unit
        if isinstance(answer, str):
            why = KILLS_TOGETHER if answer == KILLS_PROCESS else answer
            failed |= {index: why for index in others if self._has_work(rows[index])}
            answer = unit.take(others)
        count_isolated(self._stage, len(failed))
        return _put_together(rows, others, answer, failed)

    async def _survives(self, part: pa.Table) -> pa.Table | str:
        """The answer to `part`, alone on a replica; or why there is none."""
        deaths = 0
        for _ in range(_TRIES):
            try:
                return await self._ask(part, True)
            except ReplicaLost as lost:
                self._tell(part, lost)
                deaths += await self._died(lost)
            if deaths == _DEATHS:
                return KILLS_PROCESS
        return UNREACHABLE

    def _fails(self, row: Row) -> bool:
        """Whether a row of a document that fails fails with it; others were dropped before."""
        return row["dropped"] is None or self._has_work(row)

    def _has_work(self, row: Row) -> bool:
        """Whether the model is asked anything about a row."""
        if self._stage == "sample":
            return row["dropped"] is None
        return any(call["result"] is not None for call in row["calls"])

    def _tell(self, part: pa.Table, lost: ReplicaLost) -> None:
        count_asked_again(self._stage)
        _logger.warning(
            "%s: replica %d of pool %s was lost at work on unit %s (%d rows, from %s)",
            self._stage, lost.number, lost.pool, part.column("unit_id")[0].as_py(),
            part.num_rows, part.column("doc_id")[0].as_py(),
        )  # fmt: skip


def _documents(rows: Sequence[Row]) -> list[list[int]]:
    """The rows of each document: its parts follow each other."""
    documents: list[list[int]] = []
    for index, row in enumerate(rows):
        if row["part"] <= 1:
            documents.append([])
        documents[-1].append(index)
    return documents


def _put_together(
    rows: Sequence[Row], others: Sequence[int], answer: pa.Table, failed: dict[int, str]
) -> pa.Table:
    """All rows of a unit: those of `others` as in `answer`, and why the rest failed."""
    answered = dict(zip(others, answer.to_pylist(), strict=False))
    trace = (answered or dict(enumerate(rows)))[min(answered, default=0)]["trace"]
    together = [
        {**answered.get(index, row), "trace": trace} | _because(failed.get(index))
        for index, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(together, schema=IN_FLIGHT)


def _because(reason: str | None) -> Row:
    return {} if reason is None else {"dropped": reason}
