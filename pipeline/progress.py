"""The progress bar of a run: what it shows is committed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipeline.units import Unit


@contextmanager
def unit_progress(todo: Sequence[Unit], console: Console) -> Iterator[Callable[[int], None]]:
    """A bar of the documents in `todo`; yields what is told how many more are committed."""
    total = sum(unit.num_documents for unit in todo)
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("documents"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("annotate", total=total)
        yield lambda documents: progress.advance(task, documents)
