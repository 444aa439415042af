"""The progress bar of a run, fed by the done-marks: what it shows is what is safe."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipeline.rundir import RunDir
from pipeline.units import Unit

_POLL_S = 0.5


@contextmanager
def unit_progress(run: RunDir, todo: Sequence[Unit], console: Console) -> Iterator[None]:
    """A bar of the documents in `todo` whose units are committed, while the body runs."""
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
    stop = threading.Event()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("annotate", total=total)
        watcher = threading.Thread(target=_watch, args=(run, todo, progress, task, stop))
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _watch(
    run: RunDir, todo: Sequence[Unit], progress: Progress, task: TaskID, stop: threading.Event
) -> None:
    waiting = {unit.unit_id: unit.num_documents for unit in todo}
    while True:
        last_look = stop.wait(_POLL_S)
        finished = run.marked_units() & waiting.keys()
        progress.advance(task, sum(waiting.pop(unit_id) for unit_id in finished))
        if last_look:
            return
