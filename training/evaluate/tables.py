"""A table of results for a terminal."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from training.evaluate.result_table import Cell, ResultTable

_WIDTH = 80  # of a terminal that is not wider than usual


def terminal_table(shown: ResultTable) -> Table:
    """`shown` with the best of each column bold, and its notes below.

    Where lines would be wider than 80 characters, intervals stand below their numbers.
    """
    columns = list(zip(*(row.cells for row in shown.rows), strict=True))
    widths = [max((len(cell.text) for cell in column if cell), default=1) for column in columns]
    names = max((len(row.name) for row in shown.rows), default=0)
    stacked = names + sum(width + 1 for width in widths) > _WIDTH
    table = Table(
        title=escape(shown.title),
        title_justify="left",
        caption=escape("\n".join(shown.notes)) or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column(shown.of_rows, overflow="fold")
    for at, column in enumerate(shown.columns):
        heading = "\n".join((column, *shown.counts[at : at + 1]))
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for row in shown.rows:
        table.add_row(Text(row.name), *(_text(cell, stacked=stacked) for cell in row.cells))
    return table


def _text(cell: Cell | None, *, stacked: bool) -> Text:
    if cell is None:
        return Text("-", style="dim")
    text = cell.text.replace(" (", "\n(") if stacked else cell.text
    return Text(text, style="bold" if cell.is_best else "")
