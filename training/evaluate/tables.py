"""A table of results for a terminal."""

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from training.evaluate.result_table import Cell, ResultTable


def terminal_table(shown: ResultTable) -> Table:
    """`shown` with the best of each column bold, and its notes below."""
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
        table.add_row(Text(row.name), *map(_text, row.cells))
    return table


def _text(cell: Cell | None) -> Text:
    if cell is None:
        return Text("-", style="dim")
    return Text(cell.text, style="bold" if cell.is_best else "")
