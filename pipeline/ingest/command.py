"""`python -m pipeline ingest`: published web text -> a directory of DOCUMENTS Parquet."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from pipeline.ingest.conversion import Conversion
from pipeline.ingest.ledger import Ledger, read_ledger
from pipeline.ingest.sources import Source, SourceFormat, find_sources
from pipeline.ingest.summary import failure_line, summary_table
from tools.base import ConfigError, InputError
from tools.places import Place, check_output, is_remote, list_files, why

DEFAULT_MAX_BYTES = 2_000_000


def ingest(
    inputs: Sequence[Place],
    out: Place,
    *,
    source_format: SourceFormat | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    allow_truncated: bool = False,
    console: Console | None = None,
) -> Ledger:
    """What became of every input file; also printed, and in ingest.json in `out`.

    Writes one Parquet for each input file with at least one document. A file that cannot be
    used does not stop the others. Files that were finished before and have not changed are not
    read again; the result is the same as if they had been.

    Raises:
        InputError: a path is missing; or, after all files were read, one of them could not be
            used, ends before its end (unless `allow_truncated`), or no document was kept.
        ConfigError: `out` cannot be written, holds something else, or is in a store for input.
    """
    if max_bytes < 1:
        raise ConfigError(f"--max-bytes {max_bytes}: must be at least 1")
    check_output(out)
    console = console or Console()
    sources, skipped = find_sources(inputs, out, source_format)
    _make_output_directory(out, sources)
    planned = {source.output for source in sources}
    earlier = {entry.output: entry for entry in read_ledger(out).files if entry.output in planned}
    run = Conversion(out, max_bytes, earlier)
    with _progress(console) as progress:
        task = progress.add_task("", total=sum(source.size for source in sources))
        before = 0
        for source in sources:
            progress.update(task, description=escape(source.path.name))
            run.add(source, _position_setter(progress, task, before))
            before += source.size
            progress.update(task, completed=before)
    console.print(summary_table(run.entries, reused=run.reused, skipped=skipped))
    problem = failure_line(run.entries, allow_truncated=allow_truncated)
    if problem is not None:
        raise InputError(problem)
    return Ledger(files=run.entries)


def _make_output_directory(out: Place, sources: Sequence[Source]) -> None:
    """Create `out`, or see that it holds nothing that would be mixed with the new documents."""
    try:
        if is_remote(out):
            found = [name for name in list_files(out) if name.endswith(".parquet")]
        else:
            out.mkdir(parents=True, exist_ok=True)
            found = [str(path.relative_to(out)) for path in sorted(out.rglob("*.parquet"))]
    except OSError as error:
        raise ConfigError(f"--out {out}: cannot be made: {why(error)}") from None
    outputs = {source.output for source in sources}
    for name in found:
        if name not in outputs:
            raise ConfigError(
                f"--out {out}: {name.rpartition('/')[2]} in it is not made from these inputs; "
                "choose another directory or remove it"
            )


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("[progress.description]{task.description}"), BarColumn(), DownloadColumn(),
        TimeRemainingColumn(), console=console, transient=True,
    )  # fmt: skip


def _position_setter(progress: Progress, task: TaskID, before: int) -> Callable[[int], None]:
    return lambda position: progress.update(task, completed=before + position)
