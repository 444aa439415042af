"""Parquet with one document in each row, in columns named as in CCNet, C4 or FineWeb."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.ingest.records import (
    DATE_FIELDS,
    STRING_FIELDS,
    TEXT_FIELDS,
    Document,
    Reject,
    to_document,
)
from tools.base import InputError
from tools.places import Place

_BATCH_ROWS = 256
_READ_AHEAD_BYTES = 1 << 20  # of each column: column chunks are not read whole


def read_columns(raw: BinaryIO, path: Place, *, max_bytes: int) -> Iterator[Document | Reject]:
    """One item for each row, in order.

    Raises:
        InputError: the file is no Parquet, is torn, has no text column, or a column of a type
            that cannot be used.
    """
    try:
        file = pq.ParquetFile(raw, buffer_size=_READ_AHEAD_BYTES)
        names = _usable_columns(file.schema_arrow, path)
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
            columns = {name: _as_bytes_or_number(batch.column(name)) for name in names}
            for row in pa.table(columns).to_pylist():
                yield _row(row, max_bytes)
    except (pa.ArrowException, OSError) as error:
        detail = " ".join(str(error).split())
        raise InputError(f"{path}: not a readable Parquet file: {detail}") from None


def _usable_columns(schema: pa.Schema, path: Place) -> list[str]:
    names = [name for name in (*STRING_FIELDS, "language_score") if name in schema.names]
    if not any(name in TEXT_FIELDS for name in names):
        raise InputError(
            f"{path}: no text column: expected one of {', '.join(TEXT_FIELDS)}, "
            f"the file has {', '.join(schema.names)}"
        )
    for name in names:
        if schema.names.count(name) > 1:
            raise InputError(f"{path}: column {name} occurs {schema.names.count(name)} times")
        column_type = schema.field(name).type
        if not _is_usable(name, column_type):
            expected = "a number" if name == "language_score" else "text"
            raise InputError(f"{path}: column {name} is {column_type}, expected {expected}")
    return names


def _is_usable(name: str, column_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(column_type):
        column_type = column_type.value_type
    if pa.types.is_null(column_type):
        return True
    if name == "language_score":
        return bool(pa.types.is_floating(column_type) or pa.types.is_integer(column_type))
    if name in DATE_FIELDS and pa.types.is_temporal(column_type):
        return bool(pa.types.is_timestamp(column_type) or pa.types.is_date(column_type))
    return bool(
        pa.types.is_string(column_type)
        or pa.types.is_large_string(column_type)
        or pa.types.is_string_view(column_type)
        or pa.types.is_binary(column_type)
        or pa.types.is_large_binary(column_type)
    )


def _as_bytes_or_number(column: pa.Array) -> pa.Array:
    """Text as bytes, so that invalid UTF-8 is one bad row and not the end of the file."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        seconds = column.cast(pa.timestamp("s", tz=column.type.tz), safe=False)
        utc = seconds.cast(pa.int64()).cast(pa.timestamp("s"))
        column = pc.strftime(utc, format="%Y-%m-%dT%H:%M:%SZ")
    elif pa.types.is_date(column.type):
        column = column.cast(pa.date32(), safe=False).cast(pa.string())
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.float64(), safe=False)
    return column.cast(pa.large_binary())


def _row(row: dict[str, Any], max_bytes: int) -> Document | Reject:
    try:
        fields = {
            name: value.decode("utf-8") if isinstance(value, bytes) else value
            for name, value in row.items()
        }
    except UnicodeDecodeError:
        return Reject.INVALID_UTF8
    return to_document(fields, max_bytes=max_bytes)
