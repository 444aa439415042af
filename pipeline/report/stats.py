"""Counts over the committed units of a run, one unit in memory at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.build.candidates import candidates_of, read_units
from pipeline.config import RunConfig
from pipeline.report.tool_stats import ToolCounter, ToolStats, by_value
from pipeline.rundir import DoneMark
from tools.places import Place
from tools.usage import ToolUsage, total_usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A run so far; the content of report/stats.json.

    `tokens` and `seconds` are sums over units, which are worked on side by side, so seconds are
    not time on the clock. In the stages that use the model they are time a replica was at work:
    `tokens_per_second` is what one replica does, null where none did anything.
    """

    units: int
    documents: int  # read
    rows: int  # documents, or parts where one was split
    dropped: dict[str, int]  # rows that went no further, by reason
    tools: dict[str, ToolStats]
    tokens: dict[str, int]
    seconds: dict[str, float]
    tokens_per_second: float | None
    tool_usage: dict[str, ToolUsage]  # by tool, what was asked of it and what that cost

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


MODEL_STAGES = ("sample", "score")
_COLUMNS = ("dropped", "offers", "paragraphs", "positions", "calls")


def collect_stats(
    unit_files: Iterable[Place], done_marks: Sequence[DoneMark], config: RunConfig
) -> Stats:
    """Counts over `unit_files`; times, tokens and tool usage from their `done_marks`.

    Raises:
        InputError: a unit cannot be read.
    """
    tools = {name: ToolCounter(name, tool, config) for name, tool in config.tools.items()}
    dropped: Counter[str] = Counter()
    rows = units = 0
    for _, unit in read_units(unit_files, _COLUMNS):
        units, rows = units + 1, rows + unit.num_rows
        dropped.update(by_value(unit.column("dropped")))
        candidates = candidates_of(unit)
        for tool in tools.values():
            tool.add(unit, candidates)
    tokens: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for mark in done_marks:
        tokens.update(mark.tokens)
        for stage, spent in mark.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + spent
    return Stats(
        units=units,
        documents=sum(mark.documents for mark in done_marks),
        rows=rows,
        dropped=dict(sorted(dropped.items())),
        tools={name: tool.stats() for name, tool in tools.items()},
        tokens=dict(tokens),
        seconds={stage: round(spent, 3) for stage, spent in seconds.items()},
        tokens_per_second=_tokens_per_second(tokens, seconds),
        tool_usage=total_usage(mark.tools for mark in done_marks),
    )


def _tokens_per_second(tokens: Counter[str], seconds: dict[str, float]) -> float | None:
    # Those of padding are among the tokens of P, S and L.
    through_model = sum(
        count
        for kind, count in tokens.items()
        if kind.endswith("_tokens") and kind != "padding_tokens"
    )
    busy = sum(seconds.get(stage, 0.0) for stage in MODEL_STAGES)
    return round(through_model / busy, 1) if through_model and busy else None
