"""Units of work: which rows of which file are annotated and committed together."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.atomic import write_atomically
from pipeline.reading import list_document_files, one_line, open_documents
from pipeline.schemas import MANIFEST, conform
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
    _check_ids_are_unique(files)
    return units


def _check_ids_are_unique(files: Iterable[Path]) -> None:
    """Done-marks, seeds and C* name documents by doc_id. Costs 8 bytes a document and a set."""
    seen: set[bytes] = set()
    for path in files:
        try:
            batches = open_documents(path).iter_batches(columns=["doc_id"])
            for batch in batches:
                for doc_id in batch.column(0).cast(pa.large_binary()).to_pylist():
                    if doc_id is None:
                        raise InputError(
                            f"{path}: a document has no doc_id (null); give every row one"
                        )
                    digest = hashlib.blake2b(doc_id, digest_size=8).digest()
                    if digest in seen:
                        raise InputError(
                            f"{path}: doc_id {doc_id.decode(errors='replace')!r} stands for two "
                            "documents; `python -m pipeline ingest` drops the second"
                        )
                    seen.add(digest)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: cannot read its doc_id: {one_line(error)}") from None


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
    """What was planned from, as a hash: the names, sizes and row counts of the input files.

    Directories do not enter, so that a corpus can be moved and its run resumed.
    """
    rows: dict[str, int] = {}
    for unit in units:
        rows[unit.file] = rows.get(unit.file, 0) + unit.num_documents
    parts = [f"{Path(f).name}:{Path(f).stat().st_size}:{count}" for f, count in rows.items()]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
