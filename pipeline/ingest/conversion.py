"""One input file after another, each to its own Parquet, without a doc_id twice."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.ingest.columns import read_columns
from pipeline.ingest.duplicates import SeenIds
from pipeline.ingest.jsonl import read_jsonl
from pipeline.ingest.ledger import FileEntry, Ledger, write_ledger
from pipeline.ingest.records import Document, Reject
from pipeline.ingest.sources import Source, SourceFormat
from pipeline.ingest.streams import ByteStream
from pipeline.ingest.warc import read_warc
from pipeline.ingest.writing import document_writer
from tools.base import InputError, OutputError
from tools.places import Place, open_to_read, remove, store_errors, why

_PROGRESS_EVERY = 500  # records


class Conversion:
    """The files of one ingest, one after the other; `entries` grows."""

    def __init__(self, out: Place, max_bytes: int, earlier: dict[str, FileEntry]) -> None:
        self.entries: list[FileEntry] = []
        self.reused: set[str] = set()  # outputs
        self._out, self._max_bytes = out, max_bytes
        self._earlier = earlier  # what is known of these outputs from the run before
        self._seen = SeenIds()

    def add(self, source: Source, on_position: Callable[[int], None]) -> None:
        """Read one file, or take over what an earlier run made of it."""
        fresh = FileEntry(
            source=str(source.path), size=source.size, mtime_ns=source.mtime_ns,
            format=source.format, max_bytes=self._max_bytes, output=source.output,
        )  # fmt: skip
        self._seen.begin_file(len(self.entries))
        earlier = self._earlier.get(source.output)
        if earlier is not None and earlier.has_stamp_of(fresh) and self._take_over(earlier):
            self.reused.add(earlier.output)
            self.entries.append(earlier.model_copy(update={"source": fresh.source}))
        else:
            try:
                self.entries.append(self._convert(source, fresh, on_position))
            except InputError as error:
                self._seen.forget_file()
                self.entries.append(fresh.model_copy(update={"error": str(error)}))
                self._remove(self._out / source.output)
        self._save()

    def _take_over(self, entry: FileEntry) -> bool:
        """Whether the finished output is what reading the file again would give.

        It is, if its documents are still the first of their doc_id, and the first copies of
        its rejected duplicates are still in outputs that have not changed either.
        """
        if entry.error is not None or not self.reused.issuperset(entry.duplicates_of):
            return False
        if entry.kept == 0:
            return True
        path = self._out / entry.output
        try:
            with store_errors(path), open_to_read(path) as raw, pq.ParquetFile(raw) as file:
                if file.metadata.num_rows != entry.kept:
                    return False
                for batch in file.iter_batches(columns=["doc_id"]):
                    for doc_id in batch.column(0).to_pylist():
                        if self._seen.claim(doc_id) is not None:
                            self._seen.forget_file()
                            return False
        except (pa.ArrowException, OSError):
            self._seen.forget_file()
            return False
        return True

    def _convert(
        self, source: Source, entry: FileEntry, on_position: Callable[[int], None]
    ) -> FileEntry:
        path = self._out / source.output
        num_read, rejected, owners = 0, Counter[str](), set[int]()
        with _open(source) as raw, document_writer(path) as writer:
            for item in _read(source, raw, self._max_bytes):
                num_read += 1
                if isinstance(item, Reject):
                    rejected[item.value] += 1
                elif (owner := self._seen.claim(item.doc_id)) is not None:
                    rejected[Reject.DUPLICATE_DOC_ID.value] += 1
                    owners.add(owner)
                else:
                    writer.write(item)
                if num_read % _PROGRESS_EVERY == 0:
                    on_position(raw.tell())
        assert num_read == writer.num_rows + rejected.total(), (path, num_read, rejected)
        if writer.num_rows == 0:
            self._remove(path)
        owners.discard(len(self.entries))
        return entry.model_copy(
            update={
                "read": num_read,
                "kept": writer.num_rows,
                "rejected": dict(sorted(rejected.items())),
                "duplicates_of": [self.entries[owner].output for owner in sorted(owners)],
            }
        )

    def _remove(self, path: Place) -> None:
        try:
            remove(path)
        except OSError as error:
            raise OutputError(f"{path}: cannot be removed: {why(error)}") from None

    def _save(self) -> None:
        """Write the ledger, with what the run before knew of the files not reached yet."""
        done = {entry.output for entry in self.entries}
        later = [entry for output, entry in self._earlier.items() if output not in done]
        write_ledger(self._out, Ledger(files=[*self.entries, *later]))


def _read(source: Source, raw: BinaryIO, max_bytes: int) -> Iterator[Document | Reject]:
    try:
        with store_errors(source.path):
            yield from _records(source, raw, max_bytes)
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read: {why(error)}") from None


def _records(source: Source, raw: BinaryIO, max_bytes: int) -> Iterator[Document | Reject]:
    if source.format is SourceFormat.PARQUET:
        return read_columns(raw, source.path, max_bytes=max_bytes)
    stream = ByteStream(raw, source.path)
    if source.format is SourceFormat.WARC:
        return read_warc(stream, max_bytes=max_bytes)
    return read_jsonl(stream, max_bytes=max_bytes)


def _open(source: Source) -> BinaryIO:
    try:
        return open_to_read(source.path, ahead=source.format is not SourceFormat.PARQUET)
    except OSError as error:
        raise InputError(f"{source.path}: cannot be read: {why(error)}") from None
