"""The calls a person wants to see: the best, the worst, those of a tool or of a document."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.build.candidates import Candidates, candidates_of, read_units
from tools.calls import ApiCall
from tools.places import Place

_LOOKED_AT = 5  # calls for each that is shown: several may stand in one place
CONTEXT_BYTES = 240  # of the text, on each side of a call


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCall:
    """A candidate with its surroundings. Losses and gains in nats, None where not computed.

    `gain_below` is set where the gain is not known because it provably cannot matter: the gain
    is not above L_i(eps) - L_plus.
    """

    doc_id: str
    call: ApiCall
    position: int
    status: str | None
    result: str | None
    loss_empty: float | None
    loss_call: float | None
    loss_plus: float | None
    gain: float | None
    gain_below: float | None
    kept: bool
    before: str
    after: str

    @property
    def loss_minus(self) -> float | None:
        """L_minus = min(L_i(eps), L_i(e(c, eps))), where both are known."""
        if self.loss_empty is None or self.loss_call is None:
            return None
        return min(self.loss_empty, self.loss_call)

    @property
    def worth(self) -> float:
        """The gain or what it is at most; minus infinity where neither is known."""
        known = self.gain if self.gain is not None else self.gain_below
        return float("-inf") if known is None else known

    @property
    def gain_text(self) -> str:
        """The gain with its sign; "< x" where only a bound is known; else why there is none."""
        if self.gain is not None:
            return f"{self.gain:+.2f}"
        if self.gain_below is not None:
            return f"< {self.gain_below:+.2f}"
        return self.status if self.status not in (None, "ok") else "not scored"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """Which candidates to look at; None means all."""

    tool: str | None = None
    kept: bool | None = None
    doc_id: str | None = None  # of a document, or of one part of it
    scored: bool | None = None


EVERY_CALL = CallFilter()
SCORED_CALLS = CallFilter(scored=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallQuery:
    """The `limit` candidates with the highest gain, or with the lowest.

    A candidate of which only a bound of the gain is known ranks at its bound; one that was not
    scored comes last either way.
    """

    where: CallFilter
    limit: int
    lowest: bool = False


@dataclass(frozen=True, slots=True, order=True)
class _Ranked:
    """A candidate that may be shown. Compares by rank: less is better."""

    rank: tuple[float, int, int]  # minus the gain (or the gain), then the order of the run
    shown: ShownCall = field(compare=False)


CALL_COLUMNS = ("doc_id", "text", "calls")


class CallFinder:
    """Answers queries in one pass: `limit` candidates for each are in memory at a time."""

    def __init__(self, queries: Sequence[CallQuery], tau_f: Mapping[str, float]) -> None:
        self._queries, self._tau_f = queries, tau_f
        self._found: list[list[_Ranked]] = [[] for _ in queries]
        self._units = 0

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Looks through one unit, of which there are at least CALL_COLUMNS."""
        kept_C = _kept_C(candidates, self._tau_f)
        for q, query in enumerate(self._queries):
            key_C = _key_C(candidates, lowest=query.lowest)
            chosen = np.flatnonzero(_matches_C(unit, candidates, kept_C, query.where))
            chosen = chosen[np.argsort(key_C[chosen], kind="stable")[: query.limit]]
            if len(self._found[q]) == query.limit:
                chosen = chosen[key_C[chosen] < self._found[q][-1].rank[0]]
            ranked = (
                _Ranked((float(key_C[c]), self._units, int(c)), _show(unit, candidates, kept_C, c))
                for c in chosen
            )
            self._found[q] = heapq.nsmallest(query.limit, [*self._found[q], *ranked])
        self._units += 1

    def found(self) -> list[list[ShownCall]]:
        """The answer to each query so far, best (or worst) first."""
        return [[ranked.shown for ranked in best] for best in self._found]


def find_calls(
    unit_files: Iterable[Place], tau_f: Mapping[str, float], queries: Sequence[CallQuery]
) -> list[list[ShownCall]]:
    """The answer to each query, best (or worst) first.

    Raises:
        InputError: a unit cannot be read.
    """
    finder = CallFinder(queries, tau_f)
    for _, unit in read_units(unit_files, CALL_COLUMNS):
        finder.add(unit, candidates_of(unit))
    return finder.found()


def best_calls(
    unit_files: Iterable[Place], tau_f: Mapping[str, float], *, per_tool: int
) -> list[ShownCall]:
    """The calls with the highest gains of each tool in `tau_f`, each in a place of its own.

    Raises:
        InputError: a unit cannot be read.
    """
    queries = [
        CallQuery(where=CallFilter(tool=tool, scored=True), limit=_LOOKED_AT * per_tool)
        for tool in tau_f
    ]
    best: list[ShownCall] = []
    for found in find_calls(unit_files, tau_f, queries):
        places = {(shown.doc_id, shown.position): shown for shown in reversed(found)}
        by_place = [shown for shown in found if places[(shown.doc_id, shown.position)] is shown]
        best.extend(by_place[:per_tool])
    return best


def _key_C(candidates: Candidates, *, lowest: bool) -> NDArray[np.float64]:
    worth_C = np.where(np.isnan(candidates.gain_C), candidates.bound_C, candidates.gain_C)
    return np.where(np.isnan(worth_C), np.inf, worth_C if lowest else -worth_C)


def _kept_C(candidates: Candidates, tau_f: Mapping[str, float]) -> NDArray[np.bool_]:
    tau_f_C = np.array([tau_f.get(tool, np.inf) for tool in candidates.tool_C], dtype=np.float64)
    return np.asarray(candidates.gain_C >= tau_f_C)


def _matches_C(
    unit: pa.Table, candidates: Candidates, kept_C: NDArray[np.bool_], where: CallFilter
) -> NDArray[np.bool_]:
    matches_C = np.ones(len(candidates), dtype=np.bool_)
    if where.tool is not None:
        matches_C &= candidates.tool_C == where.tool
    if where.kept is not None:
        matches_C &= kept_C == where.kept
    if where.scored is not None:
        matches_C &= ~np.isnan(candidates.bound_C) == where.scored
    if where.doc_id is not None:
        prefix = where.doc_id + "#"
        wanted = [
            doc_id == where.doc_id or doc_id.startswith(prefix)
            for doc_id in unit.column("doc_id").to_pylist()
        ]
        matches_C &= np.array(wanted, dtype=np.bool_)[candidates.row_C]
    return matches_C


def _show(
    unit: pa.Table, candidates: Candidates, kept_C: NDArray[np.bool_], c: np.int64
) -> ShownCall:
    call = candidates.calls[int(c)].as_py()
    row = int(candidates.row_C[c])
    text, at = unit.column("text")[row].as_py().encode(), call["byte_offset"]
    bound = None if np.isnan(candidates.bound_C[c]) else float(candidates.bound_C[c])
    return ShownCall(
        doc_id=unit.column("doc_id")[row].as_py(),
        call=ApiCall(tool=call["tool"], input=call["input"]),
        position=call["position"],
        status=call["status"],
        result=call["result"],
        loss_empty=call["loss_empty"],
        loss_call=call["loss_call"],
        loss_plus=call["loss_plus"],
        gain=call["gain"],
        gain_below=bound if call["gain"] is None else None,
        kept=bool(kept_C[c]),
        before=text[max(0, at - CONTEXT_BYTES) : at].decode(errors="ignore"),
        after=text[at : at + CONTEXT_BYTES].decode(errors="ignore"),
    )
