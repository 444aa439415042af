"""How far a run is, from its done-marks alone: works beside a running run, and after it."""

from collections import Counter

from rich.table import Table

from pipeline.rundir import RunDir
from tools.usage import ToolUsage, total_usage


def status_table(run: RunDir) -> Table:
    """Units, documents and dropped rows so far, each tool's work, the rate, and what is left.

    Raises:
        InputError: this is no run directory.
    """
    units, marks = run.units(), run.done_marks()
    planned = sum(unit.num_documents for unit in units)
    done = sum(mark.documents for mark in marks)
    dropped: Counter[str] = Counter()
    for mark in marks:
        dropped.update(mark.dropped)
    table = Table(title=str(run.path), title_justify="left", show_header=False)
    table.add_row("state", "finished" if len(marks) == len(units) else "unfinished")
    table.add_row("units", f"{len(marks):,} of {len(units):,}")
    table.add_row("documents", f"{done:,} of {planned:,} ({done / planned:.1%})")
    for reason, count in sorted(dropped.items()):
        table.add_row(f"dropped: {reason}", f"{count:,}")
    failed = sum(mark.failed for mark in marks)
    if failed:
        table.add_row("failed", f"{failed:,} documents; annotate --only-failed tries them again")
    for name, usage in total_usage(mark.tools for mark in marks).items():
        table.add_row(f"tool {name}", _of_a_tool(usage))
        for warning in usage.warnings:
            table.add_row("", warning)
    rate = _documents_per_second([(mark.finished_at, mark.documents) for mark in marks])
    if rate:
        table.add_row("rate", f"{rate:.2f} documents/s")
        if done < planned:
            table.add_row("left at this rate", f"{(planned - done) / rate / 3600:.1f} h")
    return table


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


def _documents_per_second(commits: list[tuple[float, int]]) -> float | None:
    """Documents committed after the first commit, over the time since; None for fewer than two.

    After an interruption the pause counts as time: the rate errs towards too slow.
    """
    commits = sorted(commits)
    if len(commits) < 2 or commits[-1][0] <= commits[0][0]:
        return None
    return sum(documents for _, documents in commits[1:]) / (commits[-1][0] - commits[0][0])
