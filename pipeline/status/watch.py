"""The status of a run, again and again until it is finished."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pipeline.rundir import RunDir
from pipeline.status.progress import RunProgress
from pipeline.status.view import left_s, progress_line, progress_table, state_of
from tools.base import InputError, one_line


def watch(run: RunDir, console: Console, *, every_s: float) -> None:
    """Shows the progress of a run every `every_s` seconds, until all its units are finished.

    On a terminal as a table that changes, else as a line each time something has. A store that
    does not answer for a while ends nothing.

    Raises:
        InputError: this is no run directory.
    """
    progress = RunProgress(run)
    progress.refresh()
    if console.is_terminal:
        with Live(progress_table(run, progress), console=console, auto_refresh=False) as live:
            _repeat(run, progress, every_s, lambda table: live.update(table, refresh=True))
    else:
        _log(run, progress, console, every_s)


def _repeat(
    run: RunDir, progress: RunProgress, every_s: float, show: Callable[[Table], None]
) -> None:
    while not progress.is_finished:
        time.sleep(every_s)
        try:
            progress.refresh()
            table = progress_table(run, progress)
        except InputError as error:
            table = Table.grid()
            table.add_row(f"{one_line(error)}; asking again in {every_s:g} s")
        show(table)


def _log(run: RunDir, progress: RunProgress, console: Console, every_s: float) -> None:
    said = ""
    while True:
        try:
            progress.refresh()
            state = state_of(run, progress)
            # That only the time left has grown is no line of a log.
            new = progress_line(progress, state, seconds_left=None)
            line = progress_line(progress, state, seconds_left=left_s(progress, state))
        except InputError as error:
            new = line = f"{one_line(error)}; asking again in {every_s:g} s"
        if new != said:
            now = time.strftime("%H:%M:%S")
            console.print(f"{now} {line}", markup=False, highlight=False, soft_wrap=True)
            said = new
        if progress.is_finished:
            return
        time.sleep(every_s)
