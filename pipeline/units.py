"""Units of work: which rows of which file are annotated and committed together."""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.doc_ids import HashedIds, check_doc_ids, hash_doc_ids
from pipeline.parquet import parquet_bytes
from pipeline.reading import list_document_files, open_documents, read_footer
from pipeline.schemas import MANIFEST, conform
from tools.atomic import write_bytes_atomically
from tools.base import ContractError, InputError
from tools.places import NUM_THREADS, Place, absolute, in_order, read_if_there, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Rows [row_start, row_start + num_documents) of `file`."""

    unit_id: str
    file: str
    row_start: int
    num_documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The units of a run, and what they were planned from, as a hash.

    The hash is of the names, row counts and footers of the input files. A footer has the places
    and statistics of all pages, so it changes with the content. Directories do not enter, so
    that a corpus can be moved and its run resumed.
    """

    units: list[Unit]
    stamp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileFacts:
    num_rows: int
    blake2b: str  # of the footer
    hashed: HashedIds


def plan_input(inputs: Sequence[Place], unit_documents: int) -> Plan:
    """Every row of every input file in exactly one unit, in file and row order.

    Each file is opened once, several at a time: for its footer and its doc_ids.

    Raises:
        InputError: nothing to annotate, a file that cannot be used, or a doc_id twice.
    """
    units: list[Unit] = []
    stamps: list[str] = []
    ids, prefixes = array("q"), array("q")
    files = list_document_files(inputs)
    for path, facts in zip(files, in_order(_look_at, files, threads=NUM_THREADS), strict=True):
        file = str(absolute(path))
        for row_start in range(0, facts.num_rows, unit_documents):
            units.append(
                Unit(
                    unit_id=f"{len(units):07d}",
                    file=file,
                    row_start=row_start,
                    num_documents=min(unit_documents, facts.num_rows - row_start),
                )
            )
        if facts.num_rows:
            stamps.append(f"{path.name}:{facts.num_rows}:{facts.blake2b}")
        ids.frombytes(facts.hashed.ids.tobytes())
        prefixes.frombytes(facts.hashed.prefixes.tobytes())
    if not units:
        raise InputError(f"{', '.join(map(str, inputs))}: no documents, every file has 0 rows")
    check_doc_ids(files, np.frombuffer(ids, np.int64), np.frombuffer(prefixes, np.int64))
    return Plan(units=units, stamp=_stamp(stamps))


def _look_at(path: Place) -> _FileFacts:
    footer = read_footer(path)
    with open_documents(path, footer) as file:
        hashed = hash_doc_ids(path, file)
    return _FileFacts(num_rows=footer.metadata.num_rows, blake2b=footer.blake2b, hashed=hashed)


def plan_units(inputs: Sequence[Place], unit_documents: int) -> list[Unit]:
    """The units of `plan_input`."""
    return plan_input(inputs, unit_documents).units


def write_manifest(path: Place, units: Sequence[Unit]) -> None:
    """The plan as a Parquet file, atomically.

    Raises:
        OutputError: it cannot be written.
    """
    columns = {name: [getattr(unit, name) for unit in units] for name in MANIFEST.names}
    write_bytes_atomically(path, parquet_bytes(pa.table(columns, schema=MANIFEST)))


def read_manifest(path: Place) -> list[Unit]:
    """The plan of a run.

    Raises:
        InputError: there is none, so this is no run directory.
    """
    try:
        content = read_if_there(path) or b""
        table = pq.read_table(pa.BufferReader(content))
        columns = conform(table, MANIFEST, stage="manifest").to_pydict()
    except (pa.ArrowException, ContractError):
        raise InputError(
            f"{path.parent}: no run here (no readable {path.name}); name a directory that "
            "`annotate` wrote"
        ) from None
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be read: {why(error)}") from None
    rows = zip(*(columns[field.name] for field in fields(Unit)), strict=True)
    return [
        Unit(unit_id=unit_id, file=file, row_start=row_start, num_documents=num_documents)
        for unit_id, file, row_start, num_documents in rows
    ]


def _stamp(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()
