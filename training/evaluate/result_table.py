"""A table of results: numbers, how they are written, and which is the best of its column."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from training.benchmarks.statistics import Performance
from training.evaluate.answers import TextPerplexity


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A number in its unit, % or perplexity, with its interval, and how it is written."""

    value: float
    low: float
    high: float
    text: str
    is_best: bool = False  # of its column


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is in each column: None where nothing was measured."""

    name: str
    cells: tuple[Cell | None, ...]
    may_be_best: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """`counts` says of how many examples each column is; it may be empty."""

    slug: str  # names its plot
    title: str
    of_rows: str
    columns: tuple[str, ...]
    counts: tuple[str, ...] = ()
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def with_best(
    rows: Sequence[Row],
    best_of: Callable[[list[float]], float],
    except_columns: Collection[int] = (),
) -> tuple[Row, ...]:
    """`rows` with the best of each column marked, by `best_of` the values of those that may be.

    A column in which all are the same has no best.
    """
    values: dict[int, float] = {}
    for column in range(len(rows[0].cells)):
        cells = [row.cells[column] for row in rows if row.may_be_best]
        found = [cell.value for cell in cells if cell]
        if len(set(found)) > 1 and column not in except_columns:
            values[column] = best_of(found)
    return tuple(
        replace(
            row,
            cells=tuple(
                cell and replace(cell, is_best=row.may_be_best and cell.value == values.get(column))
                for column, cell in enumerate(row.cells)
            ),
        )
        for row in rows
    )


def percent_cell(part: Performance) -> Cell:
    """A share of right answers in % with its interval."""
    value, low, high = 100 * part.mean, 100 * part.low, 100 * part.high
    return Cell(value=value, low=low, high=high, text=f"{value:.1f} ({low:.0f}-{high:.0f})")


def percent_cells(parts: Iterable[Performance | None]) -> tuple[Cell | None, ...]:
    return tuple(None if part is None else percent_cell(part) for part in parts)


def share_cell(share: float) -> Cell:
    """A share in % for which there is no interval."""
    value = 100 * share
    return Cell(value=value, low=value, high=value, text=f"{value:.1f}")


def perplexity_cell(found: TextPerplexity) -> Cell:
    """A perplexity with its interval."""
    text = f"{found.perplexity:.2f} ({found.low:.2f}-{found.high:.2f})"
    return Cell(value=found.perplexity, low=found.low, high=found.high, text=text)
