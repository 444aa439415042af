"""When the work of a run was done, and how fast: from the done-marks alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.rundir import DoneMark

PAUSE_S = 60.0  # with nothing under way so long, nobody was at work
_BINS = 60  # of the curve of the rate


@dataclass(frozen=True, slots=True)
class Span:
    """A unit from the moment it was read to its commit. Unix times."""

    begun_at: float
    finished_at: float
    documents: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which no unit was under way that was ever committed. Unix times."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The time of a run on the clock; part of report/stats.json.

    The wall clock runs from the first unit read to the last commit; `working_s` is what is left
    of it without pauses. `rate_edges_s` are seconds of working time, `rate` documents a minute
    between two of them. All are 0 or empty where no unit is finished.
    """

    begun_at: float
    finished_at: float
    wall_s: float
    working_s: float
    documents_per_minute: float  # of working time
    pauses: list[Pause]
    rate_edges_s: list[float]
    rate: list[float]

    @property
    def pauses_at_s(self) -> list[tuple[float, Pause]]:
        """Each pause with the working time after which it began."""
        times, before = [], 0.0
        for pause in self.pauses:
            times.append((pause.start - self.begun_at - before, pause))
            before += pause.seconds
        return times


def span_of(mark: DoneMark) -> Span:
    """The span of a unit. Where its mark does not say when it was begun, it is as long as its
    stages took.
    """
    begun_at = mark.begun_at or mark.finished_at - sum(mark.seconds.values())
    return Span(min(begun_at, mark.finished_at), mark.finished_at, mark.documents)


def pauses_between(spans: Iterable[Span]) -> list[Pause]:
    """The times of a minute or more that no span covers, between the first and the last."""
    pauses: list[Pause] = []
    covered = None
    for span in sorted(spans, key=lambda span: span.begun_at):
        if covered is not None and span.begun_at - covered >= PAUSE_S:
            pauses.append(Pause(covered, span.begun_at))
        covered = span.finished_at if covered is None else max(covered, span.finished_at)
    return pauses


def timings(spans: Sequence[Span]) -> Timings:
    """When the units with these spans were made, and how fast."""
    if not spans:
        return Timings(
            begun_at=0.0, finished_at=0.0, wall_s=0.0, working_s=0.0, documents_per_minute=0.0,
            pauses=[], rate_edges_s=[], rate=[],
        )  # fmt: skip
    begun_at = min(span.begun_at for span in spans)
    finished_at = max(span.finished_at for span in spans)
    pauses = pauses_between(spans)
    working_s = finished_at - begun_at - sum(pause.seconds for pause in pauses)
    edges_b, rate_b = _rate(spans, pauses, begun_at, working_s)
    documents = sum(span.documents for span in spans)
    return Timings(
        begun_at=round(begun_at, 3),
        finished_at=round(finished_at, 3),
        wall_s=round(finished_at - begun_at, 3),
        working_s=round(working_s, 3),
        documents_per_minute=round(60 * documents / working_s, 3) if working_s else 0.0,
        pauses=pauses,
        rate_edges_s=edges_b.round(3).tolist(),
        rate=rate_b.round(3).tolist(),
    )


def _rate(
    spans: Sequence[Span], pauses: Sequence[Pause], begun_at: float, working_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges in seconds of working time, and documents a minute committed between them."""
    if working_s <= 0:
        return np.empty(0), np.empty(0)
    finished_n = np.array([span.finished_at - begun_at for span in spans], dtype=np.float64)
    documents_n = np.array([span.documents for span in spans], dtype=np.float64)
    num_bins = max(1, min(_BINS, len(spans) // 2))  # of two units or more on the average
    edges_b = np.linspace(0.0, working_s, num_bins + 1)
    at_n = np.clip(_working_time(finished_n, pauses, begun_at), 0.0, working_s)
    documents_b = np.histogram(at_n, edges_b, weights=documents_n)[0]
    return edges_b, documents_b / np.diff(edges_b) * 60


def _working_time(
    clock: NDArray[np.float64], pauses: Sequence[Pause], begun_at: float
) -> NDArray[np.float64]:
    """Seconds since the beginning without the pauses before them."""
    working = clock.copy()
    for pause in pauses:
        working -= np.clip(clock - (pause.start - begun_at), 0.0, pause.seconds)
    return working
