"""Bytes of a file, decompressed on the way, in pieces of bounded size."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from pipeline.ingest.records import Reject
from tools.base import InputError
from tools.places import Place, why

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_RECORD_BYTES = 64 << 20  # a longer line or record is passed over without being held
_CHUNK_BYTES = 1 << 20
# An error loses what one read had decompressed so far, so zstd is read in smaller pieces.
_ZSTD_CHUNK_BYTES = 1 << 16


class DamagedStream(Exception):
    """The compressed data ends or breaks here; everything before was handed out."""

    def __init__(self, reason: Reject) -> None:
        super().__init__(reason)
        self.reason = reason


class ByteStream:
    """The decompressed content of an open file. Memory is bounded by what is asked for.

    Raises, from every reading method:
        DamagedStream: the compressed data is cut or corrupt.
        InputError: the disk does not give the bytes.
    """

    def __init__(self, raw: BinaryIO, path: Place) -> None:
        self._path = path
        self._chunks = _decompressed(raw)
        self._buffer, self._start = b"", 0

    def read(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        return self._take(size, to_newline=False)

    def readline(self, limit: int) -> bytes:
        """The next line with its newline, but at most `limit` bytes; b"" at the end."""
        return self._take(limit, to_newline=True)

    def skip_line(self) -> None:
        """Drop everything up to and including the next newline."""
        while (piece := self.readline(_CHUNK_BYTES)) and not piece.endswith(b"\n"):
            pass

    def unread(self, data: bytes) -> None:
        """Put `data` back, to be read again."""
        start = self._start - len(data)
        if start >= 0 and self._buffer[start : self._start] == data:
            self._start = start  # the usual case, without a copy of the rest
        else:
            self._buffer, self._start = data + self._buffer[self._start :], 0

    def _take(self, size: int, *, to_newline: bool) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and self._fill():
            stop = min(self._start + size, len(self._buffer))
            newline = self._buffer.find(b"\n", self._start, stop) if to_newline else -1
            stop = newline + 1 if newline >= 0 else stop
            pieces.append(self._buffer[self._start : stop])
            size -= stop - self._start
            self._start = stop
            if newline >= 0:
                break
        return b"".join(pieces)

    def _fill(self) -> bool:
        if self._start < len(self._buffer):
            return True
        try:
            self._buffer, self._start = next(self._chunks, b""), 0
        except OSError as error:
            raise InputError(f"{self._path}: cannot be read: {why(error)}") from None
        return bool(self._buffer)


def _decompressed(raw: BinaryIO) -> Iterator[bytes]:
    """Non-empty chunks of the content of `raw`, read from its start."""
    raw.seek(0)
    magic = raw.read(len(ZSTD_MAGIC))
    raw.seek(0)
    if magic.startswith(GZIP_MAGIC):
        yield from _gunzipped(raw)
    elif magic == ZSTD_MAGIC:
        yield from _unzstd(raw)
    else:
        while chunk := raw.read(_CHUNK_BYTES):
            yield chunk


def _gunzipped(raw: BinaryIO) -> Iterator[bytes]:
    """All members, one after the other: CCNet's regrouped files are concatenated gzips.

    zlib and not gzip.open, whose reader drops what it had decompressed when it meets the cut.
    """
    member = None
    data = b""
    try:
        while data or (data := raw.read(_CHUNK_BYTES)):
            if member is None:
                data = data.lstrip(b"\x00")  # padding between members, as gzip allows
                if not data:
                    continue
                member = zlib.decompressobj(wbits=31)
            if content := member.decompress(data, _CHUNK_BYTES):
                yield content
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
        if member is None:
            return
        if content := member.flush():
            yield content
    except zlib.error:
        raise DamagedStream(Reject.CORRUPT_GZIP) from None
    if not member.eof:
        raise DamagedStream(Reject.TRUNCATED_GZIP)


def _unzstd(raw: BinaryIO) -> Iterator[bytes]:
    stream = pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd")
    try:
        while chunk := stream.read(_ZSTD_CHUNK_BYTES):
            yield chunk
    except pa.ArrowException:
        raise DamagedStream(Reject.DAMAGED_ZSTD) from None
    except OSError as error:
        if error.errno is not None:  # the disk, not the data
            raise
        raise DamagedStream(Reject.DAMAGED_ZSTD) from None
