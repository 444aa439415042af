"""Files that are either complete or not there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.records import Document
from pipeline.parquet import let_go
from pipeline.schemas import DOCUMENTS
from tools.atomic import how_to_mend
from tools.base import OutputError
from tools.places import Place, is_remote, put_file, why

# A unit of annotation reads whole row groups, so they are kept near the size of one.
ROW_GROUP_ROWS = 1_024
ROW_GROUP_BYTES = 16 << 20  # of text; whichever comes first


@contextmanager
def atomic_output(path: Place) -> Iterator[BinaryIO]:
    """A file to write to that becomes `path` when the block ends without an error.

    Raises:
        OutputError: the bytes cannot be written (disk full, no permission). Any OSError of the
            block is taken for one of writing. The temporary file is gone, an older `path` stays.
    """
    try:
        with _temporary(path) as temporary:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if is_remote(path):
                put_file(temporary, path)
            else:
                os.replace(temporary, path)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {why(error)}; finished files stay, "
            f"{how_to_mend(path, error)} and run the same command again"
        ) from None


@contextmanager
def _temporary(path: Place) -> Iterator[Path]:
    """A name beside `path`, or on this machine for what goes to a store; gone at the end."""
    if is_remote(path):
        with tempfile.TemporaryDirectory(prefix="toolformer-") as directory:
            yield Path(directory) / path.name
        return
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


class DocumentWriter:
    """Documents -> zstd Parquet with the DOCUMENTS schema; memory is one row group."""

    def __init__(self, file: BinaryIO) -> None:
        self._parquet = pq.ParquetWriter(file, DOCUMENTS, compression="zstd")
        self._pending: list[Document] = []
        self._pending_bytes = 0
        self.num_rows = 0

    def write(self, document: Document) -> None:
        self._pending.append(document)
        self._pending_bytes += len(document.text.encode())
        if len(self._pending) >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def abandon(self) -> None:
        """Let go of the file while it is open: what was written is not used."""
        let_go(self._parquet)

    def close(self) -> None:
        """Write what is pending and the footer."""
        if self._pending:
            self._write_row_group()
        self._parquet.close()

    def _write_row_group(self) -> None:
        columns = {
            name: [getattr(document, name) for document in self._pending]
            for name in DOCUMENTS.names
        }
        table = pa.table(columns, schema=DOCUMENTS)
        self._parquet.write_table(table, row_group_size=table.num_rows)
        self.num_rows += table.num_rows
        self._pending, self._pending_bytes = [], 0


@contextmanager
def document_writer(path: Place) -> Iterator[DocumentWriter]:
    """A writer of documents whose Parquet is `path` when the block ends without an error.

    Raises:
        OutputError: as `atomic_output`.
    """
    with atomic_output(path) as file:
        writer = DocumentWriter(file)
        try:
            yield writer
            writer.close()
        except BaseException:
            writer.abandon()
            raise
