"""What an ingest did, as a table and, where something is wrong, as one line."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from rich.markup import escape
from rich.table import Table

from pipeline.ingest.ledger import FileEntry
from pipeline.ingest.records import DAMAGE
from tools.places import Place

_MAX_ROWS = 40  # files shown one by one
_MAX_FAILURES = 3  # told in full in the error line


def summary_table(
    entries: Sequence[FileEntry], *, reused: Collection[str], skipped: Sequence[Place]
) -> Table:
    """Read, kept and rejected by reason, for each file and in total; read = kept + rejected."""
    table = Table(title="Ingested documents", caption=_caption(entries, skipped))
    table.add_column("file", overflow="fold")
    table.add_column("format")
    for name in ("read", "kept", "rejected"):
        table.add_column(name, justify="right")
    table.add_column("why rejected", overflow="fold")
    for entry in entries[:_MAX_ROWS]:
        note = _reasons(entry.rejected)
        if entry.error is not None:
            note = f"[red]not usable: {escape(entry.error)}[/red]"
        name = escape(entry.output.removesuffix(".parquet"))
        name += " [dim](done before)[/dim]" if entry.output in reused else ""
        table.add_row(name, entry.format, *_counts([entry]), note)
    if len(entries) > _MAX_ROWS:
        rest = entries[_MAX_ROWS:]
        table.add_row(f"{len(rest)} more files", "", *_counts(rest), _reasons(_total(rest)))
    table.add_section()
    table.add_row("total", "", *_counts(entries), _reasons(_total(entries)))
    return table


def failure_line(entries: Sequence[FileEntry], *, allow_truncated: bool) -> str | None:
    """What makes this ingest a failure, in one line; None if it is a success."""
    problems = [entry.error for entry in entries if entry.error is not None]
    if not allow_truncated:
        problems += [_damage(entry) for entry in entries if not DAMAGE.isdisjoint(entry.rejected)]
    if problems:
        shown = "; ".join(problems[:_MAX_FAILURES])
        more = len(problems) - _MAX_FAILURES
        rest = f"; and {more} more, see ingest.json" if more > 0 else ""
        of = f"{len(problems)} of {len(entries)} files: " if len(entries) > 1 else ""
        return f"{of}{shown}{rest}"
    if not any(entry.kept for entry in entries):
        num_read = sum(entry.read for entry in entries)
        reasons = _reasons(_total(entries)) or "the input is empty"
        return f"no document kept: {num_read} records read from {_names(entries)}; {reasons}"
    return None


def _damage(entry: FileEntry) -> str:
    reason = next(reason for reason in entry.rejected if reason in DAMAGE)
    return (
        f"{entry.source}: {reason} after {entry.read - 1} records, of which {entry.kept} are kept; "
        "replace the file, or accept what there is with --allow-truncated"
    )


def _caption(entries: Sequence[FileEntry], skipped: Sequence[Place]) -> str:
    num_read = sum(entry.read for entry in entries)
    num_kept = sum(entry.kept for entry in entries)
    sums = f"{num_read:,} read = {num_kept:,} kept + {num_read - num_kept:,} rejected"
    if not skipped:
        return sums
    names = ", ".join(path.name for path in skipped[:5]) + (", ..." if len(skipped) > 5 else "")
    return f"{sums}\npassed over, of no known format: {escape(names)}"


def _counts(entries: Sequence[FileEntry]) -> tuple[str, str, str]:
    return (
        f"{sum(entry.read for entry in entries):,}",
        f"{sum(entry.kept for entry in entries):,}",
        f"{_total(entries).total():,}",
    )


def _total(entries: Sequence[FileEntry]) -> Counter[str]:
    total = Counter[str]()
    for entry in entries:
        total.update(entry.rejected)
    return total


def _reasons(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in sorted(rejected.items()))


def _names(entries: Sequence[FileEntry]) -> str:
    return entries[0].source if len(entries) == 1 else f"{len(entries)} files"
