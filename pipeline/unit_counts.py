"""What a unit came to, counted from its rows: for those who watch a run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DONE = "done"  # the outcome of a document that was not dropped
# Nats. Many gains are below 0.
GAIN_EDGES = (-3.0, -2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCounts:
    """What one tool came to in a unit.

    `gains` says for each of GAIN_EDGES, and at its end for infinity, how many gains are not above
    it. A gain of which only an upper bound is known, as it is below every tau_f of interest,
    counts as that bound.
    """

    positions: int
    candidates: int
    executed: Mapping[str, int]  # by tools.base.ToolStatus
    kept: int  # gain >= tau_f
    gains: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounts:
    """Documents (parts of a long one count one each) and what each tool came to."""

    documents: Mapping[str, int]  # by the reason they were dropped for, or DONE
    tools: Mapping[str, ToolCounts]


def count_rows(rows: pa.Table, tau_f: Mapping[str, float]) -> UnitCounts:
    """The counts of a unit with the columns of schemas.SCORED; `tau_f` in nats, by tool."""
    positions = Counter(_structs(rows.column("positions")).field("tool").to_pylist())
    calls = _structs(rows.column("calls"))
    tools_C = np.array(calls.field("tool").to_pylist(), dtype=object)
    status_C = np.array(calls.field("status").to_pylist(), dtype=object)
    gain_C = _numbers(calls, "gain")
    bound_C = _numbers(calls, "loss_empty") - _numbers(calls, "loss_plus")
    at_most_C = np.where(np.isnan(gain_C), bound_C, gain_C)
    tools = {}
    for tool in sorted({*positions, *tools_C}):
        mine_C = tools_C == tool
        executed = Counter(status for status in status_C[mine_C] if status is not None)
        tools[tool] = ToolCounts(
            positions=positions[tool],
            candidates=int(np.count_nonzero(mine_C)),
            executed=dict(sorted(executed.items())),
            kept=int(np.count_nonzero(gain_C[mine_C] >= tau_f[tool])),
            gains=_not_above(at_most_C[mine_C]),
        )
    outcomes = Counter(reason or DONE for reason in rows.column("dropped").to_pylist())
    return UnitCounts(documents=outcomes, tools=tools)


def _structs(column: pa.ChunkedArray) -> pa.StructArray:
    """The structs in a column of lists of them."""
    return pc.list_flatten(column.combine_chunks())


def _numbers(calls: pa.StructArray, name: str) -> NDArray[np.float64]:
    """[C], NaN for null."""
    numbers = calls.field(name).to_numpy(zero_copy_only=False)
    return np.asarray(numbers, dtype=np.float64)


def _not_above(gain_c: NDArray[np.float64]) -> list[int]:
    known_c = np.sort(gain_c[~np.isnan(gain_c)])
    return [*np.searchsorted(known_c, GAIN_EDGES, side="right").tolist(), len(known_c)]
