"""Counts over the committed units of a run, one unit in memory at a time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from pipeline.build.candidates import Candidates, candidates_of, read_units
from pipeline.config import RunConfig
from pipeline.report.cost import MODEL_STAGES, Cost, busy_is_known, cost
from pipeline.report.timings import Span, Timings, span_of, timings
from pipeline.report.tool_stats import ToolCounter, ToolStats, by_value
from pipeline.rundir import DoneMark
from tools.places import Place
from tools.usage import ToolUsage


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
        self._documents = self._failed = 0
        self._tokens: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._usage: dict[str, ToolUsage] = {}
        self._spans: list[Span] = []

    def add_mark(self, mark: DoneMark) -> None:
        """Counts in the times, tokens and tool usage of one unit."""
        self._documents += mark.documents
        self._failed += mark.failed
        self._tokens.update(mark.tokens)
        for stage, spent in mark.seconds.items():
            self._seconds[stage] = self._seconds.get(stage, 0.0) + spent
        for name, usage in mark.tools.items():
            self._usage.setdefault(name, ToolUsage()).add(usage)
        self._spans.append(span_of(mark))

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Counts in one unit, of which there are at least STATS_COLUMNS."""
        self._units, self._rows = self._units + 1, self._rows + unit.num_rows
        self._dropped.update(by_value(unit.column("dropped")))
        for tool in self._tools.values():
            tool.add(unit, candidates)

    def stats(self) -> Stats:
        """What was counted."""
        tokens, seconds = self._tokens, self._seconds
        clock = timings(self._spans)
        return Stats(
            units=self._units,
            documents=self._documents,
            rows=self._rows,
            dropped=dict(sorted(self._dropped.items())),
            failed=self._failed,
            tools={name: tool.stats() for name, tool in self._tools.items()},
            tokens=dict(tokens),
            seconds={stage: round(spent, 3) for stage, spent in seconds.items()},
            tokens_per_second=_tokens_per_second(tokens, seconds, self._config),
            tool_usage=self._usage,
            timings=clock,
            cost=cost(self._config, seconds, _through_model(tokens), self._usage, clock.working_s),
        )


def collect_stats(
    unit_files: Iterable[Place], done_marks: Iterable[DoneMark], config: RunConfig
) -> Stats:
    """Counts over `unit_files`; times, tokens and tool usage from their `done_marks`.

    The marks are taken first, one at a time: files may be named as their marks come.

    Raises:
        InputError: a unit cannot be read.
    """
    counter = StatsCounter(config)
    for mark in done_marks:
        counter.add_mark(mark)
    for _, unit in read_units(unit_files, STATS_COLUMNS):
        counter.add(unit, candidates_of(unit))
    return counter.stats()


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
