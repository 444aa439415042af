"""What Prometheus sees of a run: what becomes of documents, positions and calls, and how far it is.

Ray exports the metrics on every node as `ray_<name>` and adds the node and the worker. Counters
show rates: a unit that two processes commit, as one was thought dead, counts twice, one in which
what failed is tried again counts again, and what a process that is killed counted last is lost,
as are the counts of a node. The done-marks of a run hold the totals.
"""

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import ray
from ray.util.metrics import Counter

from pipeline.failures import FAILURES
from pipeline.time_left import TimeLeft
from pipeline.unit_counts import DONE, GAIN_EDGES, UnitCounts
from pipeline.units import Unit
from tools.base import ToolStatus
from tools.lasting_gauge import LastingGauge

DOCUMENTS = "toolformer_documents_total"
FAILED_DOCUMENTS = "toolformer_failed_documents_total"
POSITIONS = "toolformer_positions_total"
CANDIDATES = "toolformer_candidates_total"
EXECUTED = "toolformer_executed_calls_total"
KEPT = "toolformer_kept_calls_total"
GAINS = "toolformer_gain_nats_bucket_total"
UNITS_PLANNED = "toolformer_units_planned"
UNITS_DONE = "toolformer_units_done"
DOCUMENTS_PLANNED = "toolformer_documents_planned"
DOCUMENTS_DONE = "toolformer_documents_done"
ETA_SECONDS = "toolformer_eta_seconds"

_VANISHING = 1e-9  # in place of 0, which Ray does not count
_OUTCOMES = (DONE, *sorted(FAILURES), "empty_text", "not_lossless", "not_offered")


class _UnitMetrics:
    """Those of the stage that commits; made once in a process, where Ray runs."""

    def __init__(self) -> None:
        tool = ("tool",)
        self.documents = Counter(DOCUMENTS, "Documents, by what became of them.", ("outcome",))
        self.failed = Counter(FAILED_DOCUMENTS, "Documents that may succeed another day.")
        self.positions = Counter(POSITIONS, "Positions where the model may call the tool.", tool)
        self.candidates = Counter(CANDIDATES, "Distinct calls at a position.", tool)
        self.executed = Counter(EXECUTED, "Calls that were executed.", (*tool, "status"))
        self.kept = Counter(KEPT, "Calls with a gain of at least tau_f.", tool)
        # Not a Histogram of Ray's: that has no bucket below 0.
        self.gains = Counter(GAINS, "Calls with a gain of at most `le` nats.", (*tool, "le"))
        self._with_buckets: set[str] = set()

    def begin(self, tools: Iterable[str]) -> None:
        """Counts nothing, of all that is known: a rate of what never happened is then 0."""
        self.failed.inc(_VANISHING)
        for outcome in _OUTCOMES:
            self.documents.inc(_VANISHING, {"outcome": outcome})
        for tool in tools:
            for counter in (self.positions, self.candidates, self.kept):
                counter.inc(_VANISHING, {"tool": tool})
            for status in ToolStatus:
                self.executed.inc(_VANISHING, {"tool": tool, "status": str(status)})
            self.count_gains(tool, [0] * (len(GAIN_EDGES) + 1))

    def count_gains(self, tool: str, not_above: Sequence[int]) -> None:
        """Counts in the gains of a tool, as of ToolCounts.not_above."""
        # Quantiles need every bucket: to Prometheus one that is missing is no edge of the next.
        at_least = 0.0 if tool in self._with_buckets else _VANISHING
        self._with_buckets.add(tool)
        for edge, number in zip((*GAIN_EDGES, "+Inf"), not_above, strict=True):
            _add(self.gains, max(number, at_least), tool=tool, le=str(edge))


_unit_metrics = cache(_UnitMetrics)


def begin_counts(tools: Iterable[str]) -> None:
    """Begins all counts at 0. Nothing without Ray."""
    if ray.is_initialized():
        _unit_metrics().begin(tools)


def count_unit(counts: UnitCounts, tau_f: Mapping[str, float]) -> None:
    """Counts in a unit that is committed; `tau_f` in nats, by tool. Nothing without Ray."""
    if not ray.is_initialized():
        return
    metrics = _unit_metrics()
    _add(metrics.failed, sum(counts.failed))
    for outcome, number in counts.outcomes.items():
        _add(metrics.documents, number, outcome=outcome)
    for tool, of_tool in counts.tools.items():
        _add(metrics.positions, of_tool.positions, tool=tool)
        _add(metrics.candidates, of_tool.candidates, tool=tool)
        for status, number in of_tool.executed.items():
            _add(metrics.executed, number, tool=tool, status=status)
        _add(metrics.kept, of_tool.kept(tau_f[tool]), tool=tool)
        metrics.count_gains(tool, of_tool.not_above())


def _add(counter: Counter, number: float, **tags: str) -> None:
    if number:  # Ray refuses 0
        counter.inc(number, tags)


class ShownProgress:
    """How far a run is; its driver shows it as long as it lives, from when it begins to work on."""

    def __init__(self, planned: Sequence[Unit], todo: Sequence[Unit]) -> None:
        """`planned` are the units of the run, `todo` those that this driver commits."""
        self._units, self._units_left = len(planned), len(todo)
        self._documents = sum(unit.num_documents for unit in planned)
        self._left = TimeLeft(sum(unit.num_documents for unit in todo), time.monotonic())
        self._lock = threading.Lock()  # the gauge of the time left asks in a thread of its own
        self._units_done = LastingGauge(UNITS_DONE, "Those of them that are committed.")
        self._documents_done = LastingGauge(DOCUMENTS_DONE, "Those of them that are committed.")
        LastingGauge(UNITS_PLANNED, "Units of the run.").set(self._units)
        LastingGauge(DOCUMENTS_PLANNED, "Documents of the run.").set(self._documents)
        LastingGauge(
            ETA_SECONDS, "Seconds left at the rate of the recent past.", read=self._seconds_left
        )
        self._show()

    def committed(self, documents: int) -> None:
        """Counts in a unit of so many documents that was committed just now."""
        with self._lock:
            self._units_left -= 1
            self._left.committed(documents, time.monotonic())
        self._show()

    def _show(self) -> None:
        self._units_done.set(self._units - self._units_left)
        self._documents_done.set(self._documents - self._left.documents)

    def _seconds_left(self) -> float | None:
        with self._lock:
            return self._left.seconds(time.monotonic())
