"""What is shown of a run's progress: a table, or one line for where nothing can be redrawn."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.durations import duration
from pipeline.inspect_run import printable
from pipeline.rundir import RunDir
from pipeline.status.progress import RunProgress
from pipeline.status.writer import writer_of
from pipeline.tally import ToolTally
from tools.base import InputError
from tools.places import file_info, read_if_there, why
from tools.usage import ToolUsage

_LONGEST = 200  # characters of an error
_EXACT = 0.25  # nats: thresholds at whose multiples a tally knows the kept calls


@dataclass(frozen=True, slots=True)
class State:
    """Whether a run is finished, and if not whether somebody is at work on it, in words."""

    text: str
    at_work: bool = False


def status_table(run: RunDir) -> Table:
    """Units, documents and dropped rows so far, each tool's work, the rate, and what is left.

    Raises:
        InputError: this is no run directory.
    """
    progress = RunProgress(run)
    progress.refresh()
    return progress_table(run, progress)


def progress_table(run: RunDir, progress: RunProgress) -> Table:
    """The progress with who writes to the run now, and its last errors.

    Raises:
        InputError: the store cannot be asked.
    """
    table = Table.grid(padding=(0, 2))
    table.title, table.title_justify = Text(str(run.path), style="bold"), "left"
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    done, planned = progress.documents, progress.planned_documents
    state = state_of(run, progress)
    table.add_row("state", state.text)
    table.add_row("units", f"{progress.units:,} of {progress.planned_units:,}")
    table.add_row("documents", f"{done:,} of {planned:,} ({_share(done, planned)})")
    table.add_row("", ProgressBar(total=max(planned, 1), completed=done, width=50))
    _add_times(table, progress, left_s(progress, state))
    for reason, count in sorted(progress.dropped.items()):
        lately = progress.dropped_lately[reason]
        now = f", {lately:,} in the last 20 units" if lately and progress.units > 20 else ""
        table.add_row(f"dropped: {printable(reason)}", f"{count:,}{now}")
    if progress.failed:
        again = "annotate --only-failed tries them again"
        table.add_row("failed", f"{progress.failed:,} documents; {again}")
    for name in dict.fromkeys([*progress.usage, *progress.tallies]):
        _add_tool(table, name, progress)
    error = _last_error(run)
    if error:
        table.add_row("last error", Text(error, style="red"))
    return table


def state_of(run: RunDir, progress: RunProgress) -> State:
    """The state of a run whose progress is known.

    Raises:
        InputError: the store cannot be asked.
    """
    if progress.is_finished:
        return State("finished")
    try:
        writer = writer_of(run)
    except OSError as error:
        raise InputError(f"{run.path}: cannot be read: {why(error)}") from None
    if writer is None:
        return State("unfinished, and nobody is at work on it; the same command continues")
    return State(f"unfinished, and {writer} is at work on it", at_work=True)


def left_s(progress: RunProgress, state: State) -> float | None:
    """How long the rest takes; while somebody is at work and commits nothing it grows."""
    return progress.left_s(time.time() if state.at_work else None)


def progress_line(progress: RunProgress, state: State, *, seconds_left: float | None) -> str:
    """The progress in one line, for a log."""
    done, planned = progress.documents, progress.planned_documents
    parts = [f"{done:,} of {planned:,} documents ({_share(done, planned)})"]
    if seconds_left and not progress.is_finished:
        rate = (planned - done) / seconds_left
        parts.append(f"{_rate_text(rate)}, {duration(seconds_left)} left")
    if progress.tallies:
        parts.append("kept " + ", ".join(f"{n} {k}" for n, k in _kept(progress).items()))
    if progress.failed:
        parts.append(f"{progress.failed:,} failed")
    return "; ".join([*parts, state.text])


def _add_times(table: Table, progress: RunProgress, seconds_left: float | None) -> None:
    """The rate of all the time at work and of late, what is left, and when the last unit came."""
    last_at = progress.last_commit_at
    if last_at is None:
        table.add_row("rate", "no unit is finished yet")
        return
    left = progress.planned_documents - progress.documents
    rates = []
    if progress.working_s > 0:
        rates.append(f"{_rate_text(progress.documents / progress.working_s)} over all")
    if left and seconds_left:
        rates.append(f"{_rate_text(left / seconds_left)} lately")
    table.add_row("rate", ", ".join(rates) or "not known yet")
    if left and seconds_left:
        table.add_row("left at this rate", duration(seconds_left))
    paused = sum(pause.seconds for pause in progress.pauses)
    pauses = f", and {duration(paused)} of pauses" if paused else ""
    table.add_row("at work", f"{duration(progress.working_s)}{pauses}")
    if left:
        table.add_row("last unit", f"{duration(max(0.0, time.time() - last_at))} ago")


def _add_tool(table: Table, name: str, progress: RunProgress) -> None:
    tally, usage = progress.tallies.get(name), progress.usage.get(name)
    if usage is not None:
        table.add_row(f"tool {name}", _of_a_tool(usage))
    if tally is not None:
        row = "" if usage is not None else f"tool {name}"
        table.add_row(row, _came_to(tally, progress.tau_f.get(name)))
    for warning in usage.warnings if usage is not None else ():
        table.add_row("", Text(printable(warning)[:_LONGEST], style="yellow"))


def _came_to(tally: ToolTally, tau_f: float | None) -> Text:
    """What became of the candidates of a tool."""
    text = Text(f"{tally.candidates:,} candidates, {tally.executed:,} executed")
    if tau_f is not None:
        kept = tally.kept(tau_f)
        style = "bold green" if kept else ""
        text.append(f", {_at_least(tau_f)}{kept:,} kept", style=style)
        text.append(f" ({_share(kept, tally.candidates)})")
    return text


def _at_least(tau_f: float) -> str:
    """What stands before a number of kept calls that are those of the next multiple alone."""
    return "at least " if tau_f % _EXACT else ""


def _kept(progress: RunProgress) -> Mapping[str, str]:
    """Kept calls by tool."""
    return {
        name: f"{_at_least(progress.tau_f[name])}{tally.kept(progress.tau_f[name])}"
        for name, tally in progress.tallies.items()
        if name in progress.tau_f
    }


def _of_a_tool(usage: ToolUsage) -> str:
    parts = [f"{usage.requests:,} calls"]
    if usage.from_cache:
        parts.append(f"{usage.from_cache:,} from the cache")
    parts.append(f"{usage.seconds:,.1f} s in the tool")
    parts.append(f"{usage.failures:,} failed")
    if usage.retries or usage.restarts:
        parts.append(f"{usage.retries:,} asked again, {usage.restarts:,} restarts")
    if usage.batches:
        parts.append(f"a batch {usage.quantile_text(0.5)} (p95 {usage.quantile_text(0.95)})")
    return ", ".join(parts)


def _last_error(run: RunDir) -> str | None:
    """The last line of error.txt, with its age where the place tells it."""
    try:
        info, content = file_info(run.error_path), read_if_there(run.error_path)
    except OSError as error:
        raise InputError(f"{run.path}: cannot be read: {why(error)}") from None
    if info is None or content is None:
        return None
    lines = content.decode(errors="replace").strip().splitlines()
    last = printable(lines[-1])[:_LONGEST] if lines else "(empty)"
    age = ""
    if "mtime_ns" in info:
        age = f"{duration(max(0.0, time.time() - info['mtime_ns'] / 1e9))} ago, "
    return f"{last} ({age}all of it in {run.error_path})"


def _rate_text(documents_per_s: float) -> str:
    if documents_per_s >= 1:
        return f"{documents_per_s:,.1f} documents/s"
    return f"{60 * documents_per_s:,.1f} documents/min"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none planned"
