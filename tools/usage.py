"""What was asked of a tool and what that cost: counts that add up over units and runs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

_BINS_PER_OCTAVE = 4  # a bin of batch times is 19 % wide
_SHORTEST_S = 1e-6

_Key = TypeVar("_Key", str, int)


@dataclass(slots=True, kw_only=True)
class ToolUsage:
    """Counts of one tool. Of a unit, or of a run by `add`.

    `requests` are answered from memory, from disk, by an equal request that was already being
    asked (`shared`), or by the tool: it was given `asked` requests, repetitions included, in
    `batches`. `seconds` are time in the tool, with those of all its processes added up.
    """

    requests: int = 0
    from_memory: int = 0
    from_disk: int = 0
    shared: int = 0
    asked: int = 0
    batches: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)  # of the answers, by ToolStatus
    retries: int = 0  # requests asked again, because their answer was retryable or its process died
    restarts: int = 0  # processes that died, or were ended because they hung
    batch_times: dict[int, int] = field(default_factory=dict)  # batches by bin, see `quantile_s`
    warnings: list[str] = field(default_factory=list)

    def add_batch(self, size: int, seconds: float) -> None:
        """Counts in one batch that the tool answered."""
        self.batches += 1
        self.asked += size
        self.seconds = round(self.seconds + seconds, 6)
        time_bin = math.floor(_BINS_PER_OCTAVE * math.log2(max(seconds, _SHORTEST_S)))
        self.batch_times[time_bin] = self.batch_times.get(time_bin, 0) + 1

    def add_statuses(self, statuses: Iterable[str]) -> None:
        """Counts in answers by their status."""
        self.statuses = dict(sorted((Counter(self.statuses) + Counter(statuses)).items()))

    def add(self, other: "ToolUsage") -> None:
        """Counts in all of `other`."""
        self.requests += other.requests
        self.from_memory += other.from_memory
        self.from_disk += other.from_disk
        self.shared += other.shared
        self.asked += other.asked
        self.batches += other.batches
        self.seconds = round(self.seconds + other.seconds, 6)
        self.statuses = dict(sorted(_sum(self.statuses, other.statuses).items()))
        self.retries += other.retries
        self.restarts += other.restarts
        self.batch_times = _sum(self.batch_times, other.batch_times)
        if other.warnings:
            self.warnings = list(dict.fromkeys([*self.warnings, *other.warnings]))

    @property
    def failures(self) -> int:
        """Answers that say the tool broke or gave none in time."""
        return self.statuses.get("failed", 0) + self.statuses.get("timeout", 0)

    @property
    def from_cache(self) -> int:
        """Answers for which the tool was not asked: known, or being asked already."""
        return self.from_memory + self.from_disk + self.shared

    def quantile_s(self, q: float) -> float | None:
        """The time of a batch that a share `q` of the batches does not exceed, within 10 %.

        None where the tool answered no batch.
        """
        rank, seen = q * self.batches, 0
        for time_bin, count in sorted(self.batch_times.items()):
            seen += count
            if seen >= rank:
                return float(2 ** ((time_bin + 0.5) / _BINS_PER_OCTAVE))
        return None

    def quantile_text(self, q: float) -> str:
        """`quantile_s` for people: "0.38 ms", "81 ms", "1.3 s", "140 s"; "" where there is none."""
        seconds = self.quantile_s(q)
        if seconds is None:
            return ""
        number, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
        return f"{float(f'{number:.2g}'):g} {unit}"


def _sum(counts: Mapping[_Key, int], more: Mapping[_Key, int]) -> dict[_Key, int]:
    """Both added up. A Counter would take several times as long, and runs have 100,000 units."""
    total = dict(counts)
    for key, count in more.items():
        total[key] = total.get(key, 0) + count
    return total


def total_usage(usages: Iterable[dict[str, ToolUsage]]) -> dict[str, ToolUsage]:
    """By tool, the sum of what units used, in the order the tools first appear."""
    totals: dict[str, ToolUsage] = {}
    for by_tool in usages:
        for name, usage in by_tool.items():
            totals.setdefault(name, ToolUsage()).add(usage)
    return totals
