"""What an index costs: `python -m tools.wikisearch.bench --passages 50000`.

Both backends index the same generated passages and answer the same queries, each in processes of
its own, so that one's memory is not the other's.
"""

import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from tools.wikisearch.bm25 import build_index
from tools.wikisearch.build import Backend
from tools.wikisearch.corpus import ReadCounts
from tools.wikisearch.generated import generated_passages, generated_queries
from tools.wikisearch.lucene_build import index_passages
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import load_index, save_index
from tools.wikisearch.shards import cut_passages, place_of_shards

_SEED = 1
_TOP_K = 5
_NUM_WARM_UP = 200  # Java compiles what it runs often; other queries than those measured
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCost:
    """Without making up the passages; `peak_bytes` is of the largest of the processes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    index_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """One query at a time in one thread, then all in one batch with a thread for each core.

    `anonymous_bytes` is the process' own memory; `file_bytes` is the page cache it maps, which
    processes of one machine share.
    """

    load_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    queries_per_s: float
    batch_queries_per_s: float
    anonymous_bytes: int
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    backend: Backend
    num_passages: int
    build: BuildCost
    search: SearchCost


def measure(backend: Backend, num_passages: int, num_queries: int, directory: Path) -> Cost:
    """What the index of `num_passages` costs; it is built in `directory` and stays there."""
    out = directory / f"{backend}-{num_passages}"
    return Cost(
        backend=backend,
        num_passages=num_passages,
        build=_elsewhere(_build, backend, num_passages, out),
        search=_elsewhere(_search, out, num_queries),
    )


def _elsewhere(function: Callable[..., _Result], *arguments: object) -> _Result:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


class _Timed:
    """Passages, and the time it took to make them up."""

    def __init__(self, passages: Iterator[Passage]) -> None:
        self._passages = passages
        self.wall_s, self.cpu_s = 0.0, 0.0

    def __iter__(self) -> Iterator[Passage]:
        return self

    def __next__(self) -> Passage:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return next(self._passages)
        finally:
            self.wall_s += time.perf_counter() - wall
            self.cpu_s += time.process_time() - cpu


def _build(backend: Backend, num_passages: int, out: Path) -> BuildCost:
    passages = _Timed(generated_passages(num_passages, seed=_SEED))
    wall, cpu = time.perf_counter(), _cpu_s()
    if backend is Backend.LUCENE:
        shards = place_of_shards(out)
        cut = cut_passages(passages, ReadCounts(), shards, source="generated")
        index_passages(shards, cut, out)
    else:
        save_index(build_index(passages), out)
    users = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return BuildCost(
        wall_s=time.perf_counter() - wall - passages.wall_s,
        cpu_s=_cpu_s() - cpu - passages.cpu_s,
        peak_bytes=max(resource.getrusage(user).ru_maxrss for user in users) * 1024,
        index_bytes=sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
    )


def _search(out: Path, num_queries: int) -> SearchCost:
    started = time.perf_counter()
    index = load_index(out, threads=os.cpu_count() or 1)
    load_s = time.perf_counter() - started
    for query in generated_queries(_NUM_WARM_UP, seed=_SEED + 1):
        index.search(query, _TOP_K)
    queries = generated_queries(num_queries, seed=_SEED + 2)
    seconds, cpu = [], time.process_time()
    for query in queries:
        started = time.perf_counter()
        index.search(query, _TOP_K)
        seconds.append(time.perf_counter() - started)
    cpu_s = time.process_time() - cpu
    started = time.perf_counter()
    index.search_batch(queries, _TOP_K)
    batch_s = time.perf_counter() - started
    return SearchCost(
        load_s=load_s,
        p50_ms=float(np.percentile(seconds, 50)) * 1e3,
        p99_ms=float(np.percentile(seconds, 99)) * 1e3,
        cpu_ms=cpu_s / num_queries * 1e3,
        queries_per_s=num_queries / sum(seconds),
        batch_queries_per_s=num_queries / batch_s,
        anonymous_bytes=_status_bytes("RssAnon"),
        file_bytes=_status_bytes("RssFile"),
    )


def _cpu_s() -> float:
    """CPU time of this process and of those it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _status_bytes(name: str) -> int:
    """A line of /proc/self/status; 0 where the system has none."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines.get(name, "0 kB").split()[0]) * 1024


def _table(costs: list[Cost]) -> Table:
    table = Table("", *(f"{cost.backend} {cost.num_passages:,}" for cost in costs))
    rows: list[tuple[str, Callable[[Cost], str]]] = [
        ("build, s (of CPU)", lambda c: f"{c.build.wall_s:.0f} ({c.build.cpu_s:.0f})"),
        ("build, peak MB", lambda c: f"{c.build.peak_bytes / 1e6:,.0f}"),
        ("index, MB", lambda c: f"{c.build.index_bytes / 1e6:,.0f}"),
        ("load, s", lambda c: f"{c.search.load_s:.1f}"),
        ("query, ms p50 / p99", lambda c: f"{c.search.p50_ms:.2f} / {c.search.p99_ms:.2f}"),
        ("query, ms of CPU", lambda c: f"{c.search.cpu_ms:.2f}"),
        ("queries/s, one thread", lambda c: f"{c.search.queries_per_s:,.0f}"),
        ("queries/s, batch", lambda c: f"{c.search.batch_queries_per_s:,.0f}"),
        ("memory of its own, MB", lambda c: f"{c.search.anonymous_bytes / 1e6:,.0f}"),
        ("mapped files, MB", lambda c: f"{c.search.file_bytes / 1e6:,.0f}"),
    ]
    for title, value in rows:
        table.add_row(title, *(value(cost) for cost in costs))
    return table


def main(
    passages: Annotated[int, typer.Option(min=1, help="Of 60 words each.")] = 50_000,
    queries: Annotated[int, typer.Option(min=1, help="Of 2 to 5 words each.")] = 1000,
    backend: Annotated[Backend, typer.Option(help="auto: both.")] = Backend.AUTO,
    directory: Annotated[
        Path | None, typer.Option(help="Where the indexes are built and stay. [default: nowhere]")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures here as well.")
    ] = None,
) -> None:
    """Measure both backends on generated passages."""
    backends = [Backend.MEMORY, Backend.LUCENE] if backend is Backend.AUTO else [backend]
    with tempfile.TemporaryDirectory(prefix="wikisearch-bench-") as temporary:
        place = directory or Path(temporary)
        costs = [measure(backend, passages, queries, place) for backend in backends]
    Console().print(_table(costs))
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
