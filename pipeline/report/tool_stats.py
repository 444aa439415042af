"""Counts of one tool: from offered documents to kept calls, and how much they gain."""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.build.candidates import Candidates
from pipeline.config import MT, RunConfig, ToolConfig
from pipeline.documents.foreign_text import Verdict

# Gains are counted in bins of a quarter nat; the first and the last bin are open.
BIN_EDGES: NDArray[np.float64] = np.linspace(-3.0, 6.0, 37)

_SHOWN_ERRORS = 8
_MOST_ERRORS = 2_000  # different ones in memory; beyond them counts of rare ones begin anew
_LONGEST_ERROR = 200
_QUOTED = re.compile("'[^']*'|\"[^\"]*\"")  # what is of one call alone


@dataclass(frozen=True, slots=True, kw_only=True)
class GainHistogram:
    """How many calls have a gain in [edges[b], edges[b + 1]), in nats.

    `bound_counts` are calls of which only an upper bound of the gain is known (it is below every
    tau_f of interest, so L_i(e(c, eps)) was not computed), counted at the bound.
    """

    edges: list[float]
    counts: list[int]
    bound_counts: list[int]


@dataclass(frozen=True, slots=True)
class ErrorText:
    """What a tool said of calls it could not answer, and of how many. What stands in quotes, as
    the input of a call, is left out.
    """

    status: str
    text: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStats:
    """One tool's way from documents to kept calls (section 2; Table 2 for `examples_at`)."""

    tau_f: float
    documents: int  # offered to the tool; parts of a split document count one each
    offers: dict[str, int]  # the same by the heuristic that offered them
    paragraphs: dict[str, int]  # by documents.foreign_text.Verdict; {} if whole texts are read
    positions: int  # with p_i > tau_s, of these the top k
    positions_pruned: int  # of these, not sampled: L_i(eps) is below every tau_f of interest
    drawn: int  # samples
    not_ended: int  # of these, without "]"
    not_parsed: int  # of these, no call of the tool
    candidates: int  # distinct calls at a position
    looks_ahead: int  # of these, not executed: their input stands only after them
    executed: int
    status: dict[str, int]  # of the executed, by tools.base.ToolStatus
    errors: list[ErrorText]  # the most frequent ones, of those that have no result
    scored: int  # with a loss given the result
    kept: int  # gain >= tau_f
    examples: int  # documents with a kept call
    kept_at: dict[str, int]  # the same two for every tau_f of `report_tau_f`
    examples_at: dict[str, int]
    gain_histogram: GainHistogram

    @property
    def paragraphs_read(self) -> str:
        """How many paragraphs the model reads of how many, and why not the others; "" for none."""
        if not self.paragraphs:
            return ""
        left_out = ", ".join(
            f"{count:,} {verdict.replace('_', ' ')}"
            for verdict, count in self.paragraphs.items()
            if verdict != Verdict.OFFERED
        )
        offered = self.paragraphs.get(Verdict.OFFERED, 0)
        return f"{offered:,} of {sum(self.paragraphs.values()):,} paragraphs ({left_out or 'all'})"


class ToolCounter:
    """Adds up the ToolStats of one tool."""

    def __init__(self, name: str, tool: ToolConfig, config: RunConfig) -> None:
        self._name, self._tau_f = name, tool.tau_f
        self._thresholds = sorted({*config.report_tau_f, tool.tau_f})
        self._report_tau_f = config.report_tau_f
        self._sums: Counter[str] = Counter()
        self._offers: Counter[str] = Counter()
        self._paragraphs: Counter[str] = Counter()
        self._status: Counter[str] = Counter()
        self._errors: Counter[tuple[str, str]] = Counter()
        self._kept_at: Counter[float] = Counter()
        self._examples_at: Counter[float] = Counter()
        self._gains = np.zeros(len(BIN_EDGES) - 1, dtype=np.int64)
        self._bounds = np.zeros(len(BIN_EDGES) - 1, dtype=np.int64)

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Counts in one unit."""
        offers = self._mine(unit.column("offers"))
        self._offers.update(by_value(offers.column("reason")))
        if self._name == MT:
            self._paragraphs.update(by_value(_flat(unit.column("paragraphs")).column("verdict")))
        positions = self._mine(unit.column("positions"))
        self._sums.update(
            documents=offers.num_rows,
            positions=positions.num_rows,
            positions_pruned=_sum(positions.column("pruned")),
            drawn=_sum(positions.column("drawn")),
            not_ended=_sum(positions.column("not_ended")),
            not_parsed=_sum(positions.column("not_parsed")),
        )
        mine_C = candidates.tool_C == self._name
        self._add_calls(
            candidates.calls.filter(pa.array(mine_C)),
            row_c=candidates.row_C[mine_C],
            gain_c=candidates.gain_C[mine_C],
            bound_c=candidates.bound_C[mine_C],
            looks_ahead_c=candidates.looks_ahead_C[mine_C],
        )

    def _add_calls(
        self,
        calls: pa.StructArray,
        *,
        row_c: NDArray[np.int64],
        gain_c: NDArray[np.float64],
        bound_c: NDArray[np.float64],
        looks_ahead_c: NDArray[np.bool_],
    ) -> None:
        status = calls.field("status")
        self._status.update(by_value(status))
        self._add_errors(calls.filter(calls.field("error").is_valid()))
        self._sums.update(
            candidates=len(status),
            looks_ahead=int(np.count_nonzero(looks_ahead_c)),
            executed=len(status) - status.null_count,
            scored=int(np.count_nonzero(~np.isnan(bound_c))),
        )
        for tau_f in self._thresholds:
            kept_c = gain_c >= tau_f
            self._kept_at[tau_f] += int(np.count_nonzero(kept_c))
            self._examples_at[tau_f] += len(np.unique(row_c[kept_c]))
        self._gains += _histogram(gain_c[~np.isnan(gain_c)])
        self._bounds += _histogram(bound_c[np.isnan(gain_c) & ~np.isnan(bound_c)])

    def _add_errors(self, calls: pa.StructArray) -> None:
        for status, error in zip(calls.field("status"), calls.field("error"), strict=True):
            text = _QUOTED.sub("'...'", " ".join(error.as_py().split()))[:_LONGEST_ERROR]
            self._errors[status.as_py() or "", text] += 1
        if len(self._errors) > _MOST_ERRORS:  # those seen once may be of any number
            self._errors = Counter(dict(self._errors.most_common(_MOST_ERRORS // 2)))

    def _mine(self, column: pa.ChunkedArray) -> pa.Table:
        table = _flat(column)
        return table.filter(pc.equal(table.column("tool"), self._name))

    def stats(self) -> ToolStats:
        return ToolStats(
            tau_f=self._tau_f,
            documents=self._sums["documents"],
            offers=dict(sorted(self._offers.items())),
            paragraphs=dict(sorted(self._paragraphs.items())),
            positions=self._sums["positions"],
            positions_pruned=self._sums["positions_pruned"],
            drawn=self._sums["drawn"],
            not_ended=self._sums["not_ended"],
            not_parsed=self._sums["not_parsed"],
            candidates=self._sums["candidates"],
            looks_ahead=self._sums["looks_ahead"],
            executed=self._sums["executed"],
            status=dict(sorted(self._status.items())),
            errors=[
                ErrorText(status, text, count)
                for (status, text), count in self._errors.most_common(_SHOWN_ERRORS)
            ],
            scored=self._sums["scored"],
            kept=self._kept_at[self._tau_f],
            examples=self._examples_at[self._tau_f],
            kept_at={str(tau_f): self._kept_at[tau_f] for tau_f in self._report_tau_f},
            examples_at={str(tau_f): self._examples_at[tau_f] for tau_f in self._report_tau_f},
            gain_histogram=GainHistogram(
                edges=BIN_EDGES.tolist(),
                counts=self._gains.tolist(),
                bound_counts=self._bounds.tolist(),
            ),
        )


def _flat(column: pa.ChunkedArray) -> pa.Table:
    """The structs in a column of lists of them."""
    flat = [pc.list_flatten(chunk) for chunk in column.chunks]
    return pa.Table.from_struct_array(pa.chunked_array(flat, column.type.value_type))


def _histogram(values: NDArray[np.float64]) -> NDArray[np.int64]:
    inside = np.clip(values, BIN_EDGES[0], BIN_EDGES[-2])
    return np.histogram(inside, BIN_EDGES)[0].astype(np.int64)


def by_value(column: pa.Array | pa.ChunkedArray) -> dict[str, int]:
    """How often each value stands in a column; nulls are not counted."""
    counts = pc.value_counts(column.drop_null())
    return {entry["values"]: entry["counts"] for entry in counts.to_pylist()}


def _sum(column: pa.ChunkedArray) -> int:
    return pc.sum(column.cast(pa.int64())).as_py() or 0
