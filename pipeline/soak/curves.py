"""Curves of a run over its time: documents a second, units under way, and how flat memory is.

Shape suffixes: R readings, M marks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.graph import UNITS_PER_WAVE
from pipeline.rundir import DoneMark
from pipeline.soak.processes import DRIVER, Reading

_WARM_UP = 1 / 3  # of a run's time; what is judged comes after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A straight line through the memory of a group after the warm-up."""

    mean_bytes: float
    grown_bytes: float  # from the first reading of these to the last


def working_time(marks: Sequence[DoneMark]) -> tuple[float, float]:
    """From the first unit read to the last one committed, Unix time."""
    return min(mark.begun_at for mark in marks), max(mark.finished_at for mark in marks)


def growths(
    readings: Sequence[Reading], marks: Sequence[DoneMark], *, wave: int = UNITS_PER_WAVE
) -> dict[str, Growth]:
    """How the memory of each group grew after the warm-up, until the last unit was read.

    After that, stages end one by one. The driver keeps records of the units of a wave, and uses
    their memory again in the next: it is judged after the first `wave` units, if there are more.
    """
    begin, _ = working_time(marks)
    end = max(mark.begun_at for mark in marks)
    warm_at = begin + _WARM_UP * (end - begin)
    commits = sorted(mark.finished_at for mark in marks)
    driver_warm_at = max(warm_at, commits[wave - 1]) if len(commits) > wave else warm_at
    found = {}
    for group in sorted({group for reading in readings for group in reading.memory_bytes}):
        since = driver_warm_at if group == DRIVER else warm_at
        growth = _growth([r for r in readings if since <= r.at <= end], group)
        if growth is not None:
            found[group] = growth
    return found


def _growth(judged: Sequence[Reading], group: str) -> Growth | None:
    """None where there is nothing to draw a line through."""
    if len(judged) < 2 or not any(group in reading.memory_bytes for reading in judged):
        return None
    at_R = np.array([reading.at - judged[0].at for reading in judged])
    bytes_R = np.array([r.memory_bytes.get(group, 0) for r in judged], dtype=np.float64)
    bytes_per_s = float(np.polyfit(at_R, bytes_R, 1)[0])
    return Growth(mean_bytes=float(bytes_R.mean()), grown_bytes=bytes_per_s * float(at_R[-1]))


def documents_per_second(marks: Sequence[DoneMark], *, points: int) -> list[tuple[float, float]]:
    """(seconds since the first unit was read, documents/s since the point before), evenly."""
    begin, end = working_time(marks)
    edges = np.linspace(begin, end, points + 1)
    finished_M = np.array([mark.finished_at for mark in marks])
    documents_M = np.array([mark.documents for mark in marks], dtype=np.float64)
    counts, _ = np.histogram(finished_M, bins=edges, weights=documents_M)
    rates = counts / np.diff(edges)
    return [(float(at - begin), float(rate)) for at, rate in zip(edges[1:], rates, strict=True)]


def most_units_under_way(marks: Sequence[DoneMark]) -> int:
    """The most units that were read and not yet committed at any time."""
    events = [(mark.begun_at, 1) for mark in marks] + [(mark.finished_at, -1) for mark in marks]
    under_way = most = 0
    for _, change in sorted(events):
        under_way += change
        most = max(most, under_way)
    return most
