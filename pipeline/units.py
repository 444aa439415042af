"""Units of work: which rows of which file are annotated and committed together."""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.doc_ids import check_doc_ids
from pipeline.reading import list_document_files, open_documents
from pipeline.schemas import MANIFEST, conform
from tools.atomic import write_atomically
from tools.base import ContractError, InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Rows [row_start, row_start + num_documents) of `file`."""

    unit_id: str
    file: str
    row_start: int
    num_documents: int


def plan_units(inputs: Sequence[Path], unit_documents: int) -> list[Unit]:
    """Every row of every input file in exactly one unit, in file and row order.

    Raises:
        InputError: nothing to annotate, a file that cannot be used, or a doc_id twice.
    """
    units: list[Unit] = []
    files = list_document_files(inputs)
    for path in files:
        total = open_documents(path).metadata.num_rows
        for row_start in range(0, total, unit_documents):
            units.append(
                Unit(
                    unit_id=f"{len(units):07d}",
                    file=str(path.resolve()),
                    row_start=row_start,
                    num_documents=min(unit_documents, total - row_start),
                )
            )
    if not units:
        raise InputError(f"{', '.join(map(str, inputs))}: no documents, every file has 0 rows")
    check_doc_ids(files)
    return units


def write_manifest(path: Path, units: Sequence[Unit]) -> None:
    """The plan as a Parquet file, atomically."""
    table = pa.Table.from_pylist([asdict(unit) for unit in units], schema=MANIFEST)
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_manifest(path: Path) -> list[Unit]:
    """The plan of a run.

    Raises:
        InputError: there is none, so this is no run directory.
    """
    try:
        rows = conform(pq.read_table(path), MANIFEST, stage="manifest").to_pylist()
    except (pa.ArrowException, OSError, ContractError):
        raise InputError(
            f"{path.parent}: no run here (no readable {path.name}); name a directory that "
            "`annotate` wrote"
        ) from None
    return [Unit(**row) for row in rows]


def input_stamp(units: Iterable[Unit]) -> str:
    """What was planned from, as a hash: the names, row counts and footers of the input files.

    A footer has the places and statistics of all pages, so it changes with the content.
    Directories do not enter, so that a corpus can be moved and its run resumed.
    """
    rows: dict[str, int] = {}
    for unit in units:
        rows[unit.file] = rows.get(unit.file, 0) + unit.num_documents
    parts = [f"{Path(f).name}:{count}:{_footer_hash(Path(f))}" for f, count in rows.items()]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _footer_hash(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)  # the length of the footer, then "PAR1"
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        return hashlib.blake2b(file.read(length), digest_size=16).hexdigest()
