"""What `python -m tools index-wikipedia` does: pages in, an index in a directory out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tools.wikisearch.bm25 import build_index
from tools.wikisearch.corpus import ReadCounts, estimate_num_passages, read_passages
from tools.wikisearch.jvm import check_heap, check_java
from tools.wikisearch.lucene_build import index_passages
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import prepare_place, save_index
from tools.wikisearch.shards import (
    CutPassages,
    cut_passages,
    kept_passages,
    place_of_shards,
    source_of,
)

MAX_PASSAGES_IN_MEMORY = 2_000_000
_PASSAGES_PER_UPDATE = 1000


class Backend(StrEnum):
    """What searches the passages. `auto` is memory up to an estimated 2 million of them."""

    AUTO = "auto"
    MEMORY = "memory"
    LUCENE = "lucene"


def build(
    files: Sequence[Path],
    out: Path,
    *,
    backend: Backend,
    k1: float,
    b: float,
    java_heap_mb: int,
    console: Console,
) -> str:
    """Write the index of the pages of `files` to `out`; what went into it, in one line.

    Raises:
        ToolformerError: a file cannot be read, `out` cannot be written, or Java is missing or
            failed. Nothing is at `out` then.
    """
    prepare_place(out)
    if backend is Backend.AUTO:
        backend = _chosen(files, console)
    if backend is Backend.LUCENE:
        check_java()  # before the hours of reading
        check_heap(java_heap_mb)
        cut = _cut(files, place_of_shards(out), console)
        with _indexing(cut.num_passages, console) as on_indexed:
            shards = place_of_shards(out)
            index_passages(
                shards, cut, out, k1=k1, b=b, heap_mb=java_heap_mb, on_indexed=on_indexed
            )
        return _summary(cut.counts, out)
    counts = ReadCounts()
    index = build_index(_reading(files, counts, console), k1=k1, b=b)
    with console.status("writing the index"):
        save_index(index, out)
    return _summary(counts, out)


def _chosen(files: Sequence[Path], console: Console) -> Backend:
    estimate = estimate_num_passages(files)
    if estimate <= MAX_PASSAGES_IN_MEMORY:
        return Backend.MEMORY
    console.print(f"about {estimate:,} passages: --backend lucene")
    return Backend.LUCENE


def _cut(files: Sequence[Path], shards: Path, console: Console) -> CutPassages:
    source = source_of(files)
    if (cut := kept_passages(shards, source)) is not None:
        console.print(f"going on with the {cut.num_passages:,} passages cut by an earlier command")
        return cut
    counts = ReadCounts()
    return cut_passages(_reading(files, counts, console), counts, shards, source)


def _reading(files: Sequence[Path], counts: ReadCounts, console: Console) -> Iterator[Passage]:
    """The passages of `files`, with a bar of the bytes read."""
    num_bytes = sum(path.stat().st_size for path in files if path.is_file())
    with _bar("{task.percentage:.0f}% {task.fields[passages]:,} passages", console) as bar:
        task = bar.add_task("reading", total=num_bytes, passages=0)
        for number, passage in enumerate(read_passages(files, counts)):
            if number % _PASSAGES_PER_UPDATE == 0:
                bar.update(task, completed=counts.num_bytes, passages=counts.num_passages)
            yield passage
    console.print(f"indexing {counts.num_passages:,} passages")


@contextmanager
def _indexing(num_passages: int, console: Console) -> Iterator[Callable[[int], None]]:
    """A bar of passages; it gives what is to be called with the number of those indexed."""
    with _bar("{task.completed:,.0f} of {task.total:,.0f} passages", console) as bar:
        task = bar.add_task("indexing", total=num_passages)
        yield lambda num_indexed: bar.update(task, completed=num_indexed)


def _bar(text: str, console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(text),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _summary(counts: ReadCounts, out: Path) -> str:
    skipped = ", ".join(f"{reason} {n:,}" for reason, n in sorted(counts.skipped.items())) or "none"
    return (
        f"{out}: {counts.num_passages:,} passages of {counts.num_pages:,} pages "
        f"({counts.num_lines:,} lines read; skipped: {skipped}; snippets under 5 words: "
        f"{counts.num_short_snippets:,})"
    )
