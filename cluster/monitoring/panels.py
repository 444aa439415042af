"""What a dashboard is made of: panels of queries, and how a query is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SHARE = "percentunit"  # between 0 and 1
_SESSION = "SessionName=~'$SessionName'"


class Kind(StrEnum):
    """The Grafana plugin that draws a panel."""

    NUMBER = "stat"
    LINES = "timeseries"
    HEATMAP = "heatmap"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression, and how each of its series is named: "{{label}}"."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`unit` is one of Grafana's, as "s", "bytes", SHARE or "suffix: documents/s"."""

    title: str
    unit: str
    description: str
    queries: Sequence[Query]
    kind: Kind = Kind.LINES
    width: int = 8  # of 24


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: Sequence[Panel]


# $SessionName (one Ray, or all) and $window (how long a rate looks back) are chosen by the reader.


def series(metric: str, matching: str = "") -> str:
    """The series of a metric, as it is called in Python."""
    return f"ray_{metric}{{{', '.join(filter(None, (_SESSION, matching)))}}}"


def rate(metric: str, matching: str = "") -> str:
    """How much a counter grows in a second."""
    return f"rate({series(metric, matching)}[$window])"


def total(expr: str, by: str = "") -> str:
    """Over all processes and nodes, for each value of the labels `by`."""
    return f"sum by ({by}) ({expr})" if by else f"sum({expr})"


def so_far(counter: str, by: str = "") -> str:
    """What counters came to, in whole numbers: they begin just above 0, see pipeline.metrics."""
    return f"round({total(counter, by)})"


def counted(part: str, whole: str, by: str) -> str:
    """The sum of `part`, 0 for what has a `whole` alone: nothing was counted there yet."""
    return f"({total(part, by)} or 0 * {total(whole, by)})"


def share(part: str, whole: str, by: str) -> str:
    """What `part` is of `whole`, for each value of the labels `by` that `whole` has."""
    return f"{counted(part, whole, by)} / {total(whole, by)}"


def quantiles(buckets: str, *qs: float) -> list[Query]:
    """What a share q of the observations of a tool do not exceed, for each q."""
    counts = total(rate(buckets), "le, tool")
    return [Query(f"histogram_quantile({q}, {counts})", f"{{{{tool}}}} p{q:.0%}"[:-1]) for q in qs]
