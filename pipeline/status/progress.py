"""What the done-marks of a run add up to; each is read once, however long a run is watched."""

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

from pipeline.report.timings import Pause, Span, pauses_between, span_of
from pipeline.rundir import DoneMark, RunDir
from pipeline.tally import ToolTally
from pipeline.time_left import TimeLeft
from tools.base import InputError
from tools.places import file_info, why
from tools.usage import ToolUsage

_LAST = 20  # units whose dropped documents are shown as the last ones


class RunProgress:
    """A run so far, as of the last `refresh`.

    A unit in which what failed is tried again counts as it was when it was first seen.
    """

    def __init__(self, run: RunDir) -> None:
        """Raises InputError: this is no run directory."""
        self._run = run
        self._units = run.units()
        config = run.config()
        self.tau_f = {name: tool.tau_f for name, tool in config.tools.items()}
        self.planned_units = len(self._units)
        self.planned_documents = sum(unit.num_documents for unit in self._units)
        self.documents = self.failed = 0
        self.dropped: Counter[str] = Counter()
        self.usage: dict[str, ToolUsage] = {}
        self.tallies: dict[str, ToolTally] = {}
        self._known_ids = {unit.unit_id for unit in self._units}
        self._seen: set[str] = set()
        self._spans: list[Span] = []
        self._last: list[tuple[float, str, dict[str, int]]] = []  # a heap
        self._pauses: list[Pause] = []
        self._command_began_at: float | None = None

    @property
    def units(self) -> int:
        """Units that are finished."""
        return len(self._seen)

    @property
    def is_finished(self) -> bool:
        return self.units == self.planned_units

    def refresh(self) -> None:
        """Reads the marks that were written since.

        Raises:
            InputError: the store cannot be asked.
        """
        self._command_began_at = self._when_the_command_began()
        before = self.units
        for mark in self._new_marks():
            self._add(mark)
        if self.units > before:
            self._pauses = pauses_between(self._spans)

    def _new_marks(self) -> Iterator[DoneMark]:
        if not self._seen:
            yield from self._run.finished(self._units)  # many at once
            return
        for unit_id in sorted((self._run.marked_units() & self._known_ids) - self._seen):
            mark = self._run.done_mark(unit_id)
            if mark is not None:
                yield mark

    def _add(self, mark: DoneMark) -> None:
        self._seen.add(mark.unit_id)
        self.documents += mark.documents
        self.failed += mark.failed
        self.dropped.update(mark.dropped)
        for name, usage in mark.tools.items():
            self.usage.setdefault(name, ToolUsage()).add(usage)
        for name, tally in mark.tallies.items():
            self.tallies.setdefault(name, ToolTally()).add(tally)
        self._spans.append(span_of(mark))
        heappush(self._last, (mark.finished_at, mark.unit_id, mark.dropped))
        if len(self._last) > _LAST:
            heappop(self._last)

    @property
    def last_commit_at(self) -> float | None:
        """Unix time; None before the first."""
        return max(self._last)[0] if self._last else None

    @property
    def dropped_lately(self) -> Counter[str]:
        """Why documents of the last 20 units went no further."""
        lately: Counter[str] = Counter()
        for _, _, dropped in self._last:
            lately.update(dropped)
        return lately

    @property
    def pauses(self) -> list[Pause]:
        return self._pauses

    @property
    def working_s(self) -> float:
        """Time on the clock from the first unit read to the last commit, without pauses."""
        if not self._spans:
            return 0.0
        first = min(span.begun_at for span in self._spans)
        last = max(span.finished_at for span in self._spans)
        return last - first - sum(pause.seconds for pause in self._pauses)

    def left_s(self, now: float | None = None) -> float | None:
        """How long the rest takes at the rate of the last ten minutes, or of the last 32 units
        where that is more, since the last pause; None before the first commit since.

        With `now`, a Unix time, it grows while nothing is committed. The time between the last
        commit and the beginning of the command that is at work, if it began after it, has no part.
        """
        resumed_at = self._pauses[-1].end if self._pauses else 0.0
        spans = [span for span in self._spans if span.finished_at > resumed_at]
        since = sum(span.documents for span in spans)
        begun_at = min((span.begun_at for span in spans), default=resumed_at)
        left = TimeLeft(self.planned_documents - self.documents + since, begun_at)
        for span in sorted(spans, key=lambda span: span.finished_at):
            left.committed(span.documents, span.finished_at)
        last = self.last_commit_at or 0.0
        silent = 0.0 if now is None else now - max(last, self._command_began_at or now)
        return left.seconds(last + max(0.0, silent))

    def _when_the_command_began(self) -> float | None:
        """Unix time: it writes run.json first. None in a store."""
        try:
            info = file_info(self._run.record_path)
        except OSError as error:
            raise InputError(f"{self._run.path}: cannot be read: {why(error)}") from None
        return info["mtime_ns"] / 1e9 if info is not None and "mtime_ns" in info else None
