"""Very many documents through the whole graph: memory flat, every one once, run-ahead bounded."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.rundir import DoneMark, RunDir
from pipeline.soak.configuration import write_configuration
from pipeline.soak.curves import (
    Growth,
    documents_per_second,
    growths,
    most_units_under_way,
    working_time,
)
from pipeline.soak.documents import RARE, document_ids, write_documents
from pipeline.soak.emptied import emptied
from pipeline.soak.plots import curves_svg
from pipeline.soak.processes import DRIVER, EVERY_GROUP, Reading
from pipeline.soak.results import Check, Part
from pipeline.soak.watching import Watched, watched_annotate
from tools.atomic import write_text_atomically

# Fewer documents are over before what Python and Ray fill once is full.
_JUDGED_DOCUMENTS = 200_000
# After the warm-up a group may grow by this share of what it holds, or by so many bytes: the
# allocator keeps what the largest unit needed, the driver a few bytes of each unit.
MOST_GROWTH, _SMALL_GROWTH_BYTES = 0.10, 32 << 20
# Five stages, each with two units for the replica it feeds, and as many waiting before it.
_MOST_UNDER_WAY = 5 * 2 * 2
_POINTS = 60
PICTURE = "memory_and_rate.svg"


def endure(
    directory: Path,
    num_documents: int,
    tell: Callable[[str], None],
    *,
    unit_documents: int,
    every_s: float,
) -> Part:
    """Annotate `num_documents` generated documents in `directory`, and judge the run.

    Its processes are read every `every_s` seconds.

    Raises:
        ToolformerError: the run ends with an error.
        OutputError: `directory` holds what no soak wrote, or the disk is full.
    """
    documents = emptied(directory) / "documents"
    tell(f"writing {num_documents:,} documents")
    write_documents(documents, num_documents, shares=RARE)
    configuration = write_configuration(
        directory, documents=documents, unit_documents=unit_documents
    )
    tell(f"annotating {num_documents:,} documents")
    watched = watched_annotate(configuration, every_s=every_s)
    tell("reading what was committed")
    checks = [
        *memory_checks(watched.readings, watched.marks),
        _each_once(watched.run, num_documents),
        _run_ahead(watched),
    ]
    figures = _figures(watched) | {"unit_documents": unit_documents}
    picture = curves_svg(watched.readings, watched.marks, points=_POINTS)
    write_text_atomically(directory / PICTURE, picture)
    return Part(name="endurance", figures=figures, checks=checks)


def memory_checks(readings: Sequence[Reading], marks: Sequence[DoneMark]) -> list[Check]:
    """One for each group of processes; in a long run, one that nobody could judge has failed."""
    long_enough = sum(mark.documents for mark in marks) >= _JUDGED_DOCUMENTS
    found = growths(readings, marks)
    checks = []
    for group in sorted({*EVERY_GROUP, *found}):
        growth = found.get(group)
        checks.append(
            Check(
                name=f"memory of {group} is flat after the warm-up",
                got=_shown(growth),
                expected=f"at most {MOST_GROWTH:.0%} or {_SMALL_GROWTH_BYTES >> 20} MiB more",
                holds=_is_flat(growth) if long_enough else None,
            )
        )
    return checks


def _is_flat(growth: Growth | None) -> bool:
    if growth is None:
        return False
    return growth.grown_bytes <= max(MOST_GROWTH * growth.mean_bytes, _SMALL_GROWTH_BYTES)


def _shown(growth: Growth | None) -> str:
    if growth is None:
        return "not read after the warm-up"
    return f"{growth.grown_bytes / 2**20:+.1f} MiB on {growth.mean_bytes / 2**20:.0f} MiB"


def _each_once(run: RunDir, num_documents: int) -> Check:
    """Whether the committed documents, in the order of the manifest, are those that were written.

    One that is missing, there twice, or elsewhere changes the hash of all doc_ids in order.
    """
    found, count = hashlib.blake2b(digest_size=16), 0
    for path in run.finished_unit_files():
        ids = pq.read_table(path, columns=["doc_id"]).column("doc_id").to_pylist()
        _add(found, ids)
        count += len(ids)
    written = hashlib.blake2b(digest_size=16)
    _add(written, document_ids(num_documents))
    return Check(
        name="every document is committed exactly once",
        got=f"{count:,} documents, hash {found.hexdigest()[:12]}",
        expected=f"{num_documents:,} documents, hash {written.hexdigest()[:12]}",
        holds=count == num_documents and found.digest() == written.digest(),
    )


def _add(digest: "hashlib.blake2b", ids: Iterable[str]) -> None:
    for doc_id in ids:
        digest.update(f"{doc_id}\n".encode())


def _run_ahead(watched: Watched) -> Check:
    most = most_units_under_way(watched.marks)
    return Check(
        name="run-ahead is bounded",
        got=f"{most} units read and not committed",
        expected=f"at most {_MOST_UNDER_WAY}",
        holds=most <= _MOST_UNDER_WAY,
    )


def _figures(watched: Watched) -> dict[str, Any]:
    begin, end = working_time(watched.marks)
    grown = growths(watched.readings, watched.marks)
    peak = max((r.memory_bytes.get(DRIVER, 0) for r in watched.readings), default=0)
    return {
        "documents": watched.documents,
        "units": len(watched.marks),
        "working_s": end - begin,
        "command_s": watched.wall_s,
        "documents_per_s": watched.documents / (end - begin),
        "calls": sum(usage.requests for mark in watched.marks for usage in mark.tools.values()),
        "units_under_way_most": most_units_under_way(watched.marks),
        "driver_peak_mib": peak / 2**20,
        "memory_mean_mib": {g: growth.mean_bytes / 2**20 for g, growth in grown.items()},
        "memory_grown_mib": {g: growth.grown_bytes / 2**20 for g, growth in grown.items()},
        "memory_curve_bytes": [
            {"at_s": reading.at - begin, **reading.memory_bytes} for reading in watched.readings
        ],
        "documents_per_s_curve": documents_per_second(watched.marks, points=_POINTS),
    }
