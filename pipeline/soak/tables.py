"""The results as tables for a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from pipeline.soak.results import Part

_VERDICTS = {True: "yes", False: "NO", None: "too short to tell"}


def tables(part: Part) -> Iterator[Table]:
    """The figures of an experiment, the scaling as a table of its own, then its checks."""
    yield _figures(part)
    if "table" in part.figures:
        yield _scaling(part.figures["table"])
    yield _checks(part)


def _figures(part: Part) -> Table:
    table = Table(title=part.name, title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in part.figures.items():
        if isinstance(value, int | float | str):
            table.add_row(name, _number(value))
        elif isinstance(value, dict):
            for inner, number in value.items():
                table.add_row(f"{name}: {inner}", _number(number))
    return table


def _scaling(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="scaling", title_justify="left")
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(_number(value) for value in row.values()))
    return table


def _checks(part: Part) -> Table:
    table = Table(title=f"{part.name}: what has to be so", title_justify="left")
    for heading in ("", "found", "expected", "so?"):
        table.add_column(heading)
    for check in part.checks:
        table.add_row(check.name, check.got, check.expected, _VERDICTS[check.holds])
    return table


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
