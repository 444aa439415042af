"""Parquet files as bytes, and writers that are let go."""

from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_bytes(table: pa.Table, compression: str = "snappy") -> bytes:
    """The content of the Parquet file of `table`."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression=compression)
    return bytes(sink.getvalue())


def let_go(writer: pq.ParquetWriter) -> None:
    """Close a writer whose file is not used, and which may have failed.

    pyarrow would close a forgotten one from __del__, and raise there where its file is closed.
    """
    with suppress(OSError, ValueError, pa.ArrowException):
        writer.close()
    writer.is_open = False
