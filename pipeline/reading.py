"""DOCUMENTS Parquet files: what is there, and the rows of one unit of it."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import DOCUMENTS
from tools.base import InputError
from tools.places import Place, file_info, is_remote, list_files, open_to_read, store_errors, why

_REQUIRED = [field.name for field in DOCUMENTS if not field.nullable]
_LARGEST_ROW_GROUP = 20_000  # rows; every unit reads the row groups it touches whole
_TAIL_BYTES = 64 << 10  # of a file, in which most footers are whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """One input row. `dropped` says why its text cannot be used; `text` is then empty."""

    doc_id: str
    text: str
    url: str | None
    date_download: str | None
    language: str | None
    dropped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a Parquet file says of itself, and a hash of that.

    It has the places and statistics of all pages, so it changes with the content.
    """

    metadata: pq.FileMetaData
    blake2b: str


def list_document_files(inputs: Sequence[Place]) -> list[Place]:
    """Every Parquet file named by `inputs` or below a directory of them, sorted within each.

    Raises:
        InputError: a path does not exist or there is no Parquet file in it.
    """
    files: list[Place] = []
    for path in inputs:
        try:
            info = file_info(path)
            if info is not None and info["type"] == "directory":
                found = _parquet_files(path)
                if not found:
                    raise InputError(f"{path}: no .parquet file in this directory")
                files.extend(found)
            elif info is not None:
                files.append(path)
            else:
                raise InputError(f"{path}: no such file or directory")
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {why(error)}") from None
    return files


def _parquet_files(directory: Place) -> list[Place]:
    if is_remote(directory):
        found: list[Place] = [directory / name for name in list_files(directory)]
    else:
        found = [*sorted(directory.rglob("*.parquet"))]
    return [p for p in found if p.name.endswith(".parquet") and not p.name.startswith(".")]


def read_footer(path: Place) -> Footer:
    """The footer of a DOCUMENTS file, its columns checked.

    Raises:
        InputError: as `open_documents`.
    """
    with _readable(path), open_to_read(path) as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
        length = int.from_bytes(tail[-8:-4], "little") + 8  # the last four bytes are "PAR1"
        if len(tail) < length <= size:
            file.seek(size - length)
            tail = file.read()
        metadata = pq.ParquetFile(pa.BufferReader(tail)).metadata
    _check(path, metadata)
    footer = tail[len(tail) - length : len(tail) - 8]
    digest = hashlib.blake2b(footer, digest_size=16).hexdigest()
    return Footer(metadata=metadata, blake2b=digest)


def open_documents(path: Place, footer: Footer | None = None) -> pq.ParquetFile:
    """The Parquet file, its footer read if it is not given, and its columns checked.

    Of a file in a store, ranges are fetched: the footer, then the row groups that are asked for.

    Raises:
        InputError: the file is no Parquet, is torn, lacks a required column of text, or has row
            groups far larger than a unit.
    """
    with _readable(path):
        file = pq.ParquetFile(
            open_to_read(path) if is_remote(path) else path,
            metadata=None if footer is None else footer.metadata,
            pre_buffer=is_remote(path),
        )
    if footer is None:
        _check(path, file.metadata)
    return file


@contextmanager
def _readable(path: Place) -> Iterator[None]:
    try:
        with store_errors(path):
            yield
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {why(error)}") from None


def _check(path: Place, metadata: pq.FileMetaData) -> None:
    schema = metadata.schema.to_arrow_schema()
    missing = [name for name in _REQUIRED if name not in schema.names]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; it has {', '.join(schema.names)} "
            "(`python -m pipeline ingest` makes DOCUMENTS Parquet from other layouts)"
        )
    for name in _REQUIRED:
        found = schema.field(name).type
        if not _is_text(found):
            raise InputError(f"{path}: column {name} is {found}, expected text (a string column)")
    groups = (metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))
    if max(groups, default=0) > _LARGEST_ROW_GROUP:
        raise InputError(
            f"{path}: a row group of more than {_LARGEST_ROW_GROUP} rows would be read again for "
            "every unit in it; `python -m pipeline ingest` writes smaller ones"
        )


def _is_text(type_: pa.DataType) -> bool:
    """Text, or the bytes of it."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def read_rows(path: Place, row_start: int, num_rows: int) -> list[SourceDocument]:
    """Rows [row_start, row_start + num_rows) of a DOCUMENTS file.

    Raises:
        InputError: the data pages cannot be read, or the file has become shorter.
    """
    with open_documents(path) as file:
        columns = [name for name in DOCUMENTS.names if name in file.schema_arrow.names]
        groups, skipped, first = [], 0, 0
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if first + size <= row_start:
                skipped += size
            elif first < row_start + num_rows:
                groups.append(group)
            first += size
        try:
            with store_errors(path):
                table = file.read_row_groups(groups, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: cannot read its rows: {why(error)}") from None
    table = table.slice(row_start - skipped, num_rows)
    if table.num_rows != num_rows:
        raise InputError(
            f"{path}: rows {row_start} to {row_start + num_rows} were planned, the file has "
            f"{first}; it changed since the run began"
        )
    return [_document(row) for row in _bytes_of_text(table).to_pylist()]


def _bytes_of_text(table: pa.Table) -> pa.Table:
    """Text columns as bytes, so that invalid UTF-8 is seen row by row and not as a crash."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table.column(index).cast(pa.large_binary())
            table = table.set_column(index, field.name, column)
    return table


def _document(row: dict[str, Any]) -> SourceDocument:
    text, dropped = "", None
    if row["text"] is None:
        dropped = "no_text"
    else:
        try:
            text = _text(row["text"])
        except UnicodeDecodeError:
            dropped = "invalid_utf8"
    return SourceDocument(
        doc_id=_lossy(row["doc_id"]) or "",
        text=text,
        url=_lossy(row.get("url")),
        date_download=_lossy(row.get("date_download")),
        language=_lossy(row.get("language")),
        dropped=dropped,
    )


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _lossy(value: Any) -> str | None:
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
