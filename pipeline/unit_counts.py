"""What a unit came to, counted once from its rows: for its done-mark, for metrics, for retries.

Shape suffixes: C calls of the unit, R rows, D documents of the input (several rows where split).
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.failures import FAILURES
from pipeline.tally import ToolTally, tally_of
from tools.base import ToolStatus

DONE = "done"  # the outcome of a document that was not dropped
# Nats. Many gains are below 0.
GAIN_EDGES = (-3.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_FAILED_CALL = (str(ToolStatus.FAILED), str(ToolStatus.TIMEOUT))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCounts:
    """What one tool came to in a unit.

    `gains` are those that are known, ascending; `at_most` are these and, of gains of which only an
    upper bound is known, as they are below every tau_f of interest, these bounds. In nats.
    """

    positions: int
    candidates: int  # distinct calls at a position
    executed: Mapping[str, int]  # by tools.base.ToolStatus
    gains: Sequence[float]
    at_most: Sequence[float]

    def kept(self, tau_f: float) -> int:
        """Calls with a gain of at least `tau_f`."""
        return len(self.gains) - bisect_left(self.gains, tau_f)

    def not_above(self) -> list[int]:
        """How many of `at_most` are not above each of GAIN_EDGES; all at the end, for infinity."""
        edges = [bisect_right(self.at_most, edge) for edge in GAIN_EDGES]
        return [*edges, len(self.at_most)]

    def tally(self) -> ToolTally:
        """What the done-mark has of it."""
        return tally_of(self.candidates, sum(self.executed.values()), self.gains)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounts:
    """What the rows of a unit came to.

    `first_row` and `failed` have an entry for each document of the input: where its rows begin,
    and whether it failed itself or a tool did for one of its calls, see pipeline.redrive.
    """

    first_row: Sequence[int]
    failed: Sequence[bool]
    outcomes: Mapping[str, int]  # rows by the reason they were dropped for, or DONE
    tools: Mapping[str, ToolCounts]

    @property
    def dropped(self) -> dict[str, int]:
        """Rows that went no further, by reason."""
        return {reason: n for reason, n in sorted(self.outcomes.items()) if reason != DONE}


def count_rows(rows: pa.Table) -> UnitCounts:
    """The counts of a unit with the columns of schemas.SCORED."""
    column = rows.column("calls").combine_chunks()
    calls = pc.list_flatten(column)
    dropped = rows.column("dropped").to_pylist()
    failed_R = np.array([reason in FAILURES for reason in dropped], dtype=bool)
    failed_call_C = pc.is_in(calls.field("status"), pa.array(_FAILED_CALL))
    failed_R[pc.list_parent_indices(column).filter(failed_call_C).to_numpy()] = True
    first_row_D = np.flatnonzero(rows.column("part").to_numpy() <= 1)
    failed_D = np.logical_or.reduceat(failed_R, first_row_D) if len(first_row_D) else failed_R[:0]
    return UnitCounts(
        first_row=first_row_D.tolist(),
        failed=failed_D.tolist(),
        outcomes=Counter(reason or DONE for reason in dropped),
        tools=_count_tools(calls, rows.column("positions")),
    )


def _count_tools(calls: pa.StructArray, positions: pa.ChunkedArray) -> dict[str, ToolCounts]:
    positions_of = Counter(pc.list_flatten(positions.combine_chunks()).field("tool").to_pylist())
    tool_C = np.array(calls.field("tool").to_pylist(), dtype=object)
    status_C = np.array(calls.field("status").to_pylist(), dtype=object)
    gain_C = _numbers(calls, "gain")
    bound_C = _numbers(calls, "loss_empty") - _numbers(calls, "loss_plus")
    at_most_C = np.where(np.isnan(gain_C), bound_C, gain_C)
    tools = {}
    for tool in sorted({*positions_of, *tool_C}):
        mine_C = tool_C == tool
        executed = Counter(status for status in status_C[mine_C] if status is not None)
        tools[tool] = ToolCounts(
            positions=positions_of[tool],
            candidates=int(np.count_nonzero(mine_C)),
            executed=dict(sorted(executed.items())),
            gains=_known(gain_C[mine_C]),
            at_most=_known(at_most_C[mine_C]),
        )
    return tools


def _numbers(calls: pa.StructArray, name: str) -> NDArray[np.float64]:
    """[C], NaN for null."""
    numbers = calls.field(name).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64)


def _known(number_c: NDArray[np.float64]) -> list[float]:
    """Those that are not NaN, ascending."""
    known: list[float] = np.sort(number_c[~np.isnan(number_c)]).tolist()
    return known
