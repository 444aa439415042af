"""Counts over the committed units of a run, one unit in memory at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from pipeline.build.candidates import Candidates, candidates_of, read_units
from pipeline.config import RunConfig
from pipeline.report.cost import MODEL_STAGES, Cost, busy_is_known, cost
from pipeline.report.timings import Timings, span_of, timings
from pipeline.report.tool_stats import ToolCounter, ToolStats, by_value
from pipeline.rundir import DoneMark
from tools.places import Place
from tools.usage import ToolUsage, total_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A run so far; the content of report/stats.json.

    `tokens` and `seconds` are sums over units, which are worked on side by side, so seconds are
    not time on the clock: that is in `timings`. In the stages that use the model they are time a
    unit had of a replica: `tokens_per_second` is what one replica does, null where none did
    anything, and where that time is of no one replica: units overlap in one that works on several
    at once, and where kinds of work have replicas of their own, one waits for another.
    """

    units: int
    documents: int  # read
    rows: int  # documents, or parts where one was split
    dropped: dict[str, int]  # rows that went no further, by reason
    failed: int  # documents that may succeed another day, see pipeline.redrive
    tools: dict[str, ToolStats]
    tokens: dict[str, int]
    seconds: dict[str, float]
    tokens_per_second: float | None
    tool_usage: dict[str, ToolUsage]  # by tool, what was asked of it and what that cost
    timings: Timings
    cost: Cost

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


STATS_COLUMNS = ("dropped", "offers", "paragraphs", "positions", "calls")


class StatsCounter:
    """Adds up the Stats of a run."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._tools = {name: ToolCounter(name, tool, config) for name, tool in config.tools.items()}
        self._dropped: Counter[str] = Counter()
        self._units = self._rows = 0

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Counts in one unit, of which there are at least STATS_COLUMNS."""
        self._units, self._rows = self._units + 1, self._rows + unit.num_rows
        self._dropped.update(by_value(unit.column("dropped")))
        for tool in self._tools.values():
            tool.add(unit, candidates)

    def stats(self, done_marks: Sequence[DoneMark]) -> Stats:
        """What was counted; times, tokens and tool usage from the `done_marks`."""
        tokens: Counter[str] = Counter()
        seconds: dict[str, float] = {}
        for mark in done_marks:
            tokens.update(mark.tokens)
            for stage, spent in mark.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + spent
        usage = total_usage(mark.tools for mark in done_marks)
        clock = timings([span_of(mark) for mark in done_marks])
        return Stats(
            units=self._units,
            documents=sum(mark.documents for mark in done_marks),
            rows=self._rows,
            dropped=dict(sorted(self._dropped.items())),
            failed=sum(mark.failed for mark in done_marks),
            tools={name: tool.stats() for name, tool in self._tools.items()},
            tokens=dict(tokens),
            seconds={stage: round(spent, 3) for stage, spent in seconds.items()},
            tokens_per_second=_tokens_per_second(tokens, seconds, self._config),
            tool_usage=usage,
            timings=clock,
            cost=cost(self._config, seconds, _through_model(tokens), usage, clock.working_s),
        )


def collect_stats(
    unit_files: Iterable[Place], done_marks: Sequence[DoneMark], config: RunConfig
) -> Stats:
    """Counts over `unit_files`; times, tokens and tool usage from their `done_marks`.

    Raises:
        InputError: a unit cannot be read.
    """
    counter = StatsCounter(config)
    for _, unit in read_units(unit_files, STATS_COLUMNS):
        counter.add(unit, candidates_of(unit))
    return counter.stats(done_marks)


def _through_model(tokens: Counter[str]) -> int:
    """Tokens through the body of the model. Those of padding are among those of P, S and L."""
    return sum(
        count
        for kind, count in tokens.items()
        if kind.endswith("_tokens") and kind != "padding_tokens"
    )


def _tokens_per_second(
    tokens: Counter[str], seconds: dict[str, float], config: RunConfig
) -> float | None:
    if not busy_is_known(config.pools):
        return None
    through_model = _through_model(tokens)
    busy = sum(seconds.get(stage, 0.0) for stage in MODEL_STAGES)
    return round(through_model / busy, 1) if through_model and busy else None
