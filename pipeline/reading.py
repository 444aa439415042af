"""DOCUMENTS Parquet files: what is there, and the rows of one unit of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import DOCUMENTS
from tools.base import InputError, one_line

_REQUIRED = [field.name for field in DOCUMENTS if not field.nullable]
_LARGEST_ROW_GROUP = 20_000  # rows; every unit reads the row groups it touches whole


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDocument:
    """One input row. `dropped` says why its text cannot be used; `text` is then empty."""

    doc_id: str
    text: str
    url: str | None
    date_download: str | None
    language: str | None
    dropped: str | None


def list_document_files(inputs: Sequence[Path]) -> list[Path]:
    """Every Parquet file named by `inputs` or below a directory of them, sorted within each.

    Raises:
        InputError: a path does not exist or there is no Parquet file in it.
    """
    files: list[Path] = []
    for path in inputs:
        if path.is_dir():
            found = sorted(p for p in path.rglob("*.parquet") if not p.name.startswith("."))
            if not found:
                raise InputError(f"{path}: no .parquet file in this directory")
            files.extend(found)
        elif path.exists():
            files.append(path)
        else:
            raise InputError(f"{path}: no such file or directory")
    return files


def open_documents(path: Path) -> pq.ParquetFile:
    """The Parquet file, its footer read and its columns checked.

    Raises:
        InputError: the file is no Parquet, is torn, lacks a required column of text, or has row
            groups far larger than a unit.
    """
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file: {one_line(error)}") from None
    missing = [name for name in _REQUIRED if name not in file.schema_arrow.names]
    if missing:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; it has {', '.join(file.schema_arrow.names)} "
            "(`python -m pipeline ingest` makes DOCUMENTS Parquet from other layouts)"
        )
    for name in _REQUIRED:
        found = file.schema_arrow.field(name).type
        if not _is_text(found):
            raise InputError(f"{path}: column {name} is {found}, expected text (a string column)")
    groups = (file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups))
    if max(groups, default=0) > _LARGEST_ROW_GROUP:
        raise InputError(
            f"{path}: a row group of more than {_LARGEST_ROW_GROUP} rows would be read again for "
            "every unit in it; `python -m pipeline ingest` writes smaller ones"
        )
    return file


def _is_text(type_: pa.DataType) -> bool:
    """Text, or the bytes of it."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def read_rows(path: Path, row_start: int, num_rows: int) -> list[SourceDocument]:
    """Rows [row_start, row_start + num_rows) of a DOCUMENTS file.

    Raises:
        InputError: the data pages cannot be read, or the file has become shorter.
    """
    file = open_documents(path)
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
        table = file.read_row_groups(groups, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot read its rows: {one_line(error)}") from None
    table = table.slice(row_start - skipped, num_rows)
    if table.num_rows != num_rows:
        raise InputError(
            f"{path}: rows {row_start} to {row_start + num_rows} were planned, the file has "
            f"{file.metadata.num_rows}; it changed since the run began"
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
    try:
        text = _text(row["text"])
    except UnicodeDecodeError:
        dropped = "invalid_utf8"
    if row["text"] is None:
        dropped = "no_text"
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
