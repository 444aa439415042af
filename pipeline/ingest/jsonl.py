"""JSON lines: CCNet, RedPajama-V2, C4, FineWeb."""

import json
from collections.abc import Iterator

from pipeline.ingest.records import Document, Reject, to_document
from pipeline.ingest.streams import MAX_RECORD_BYTES, ByteStream, DamagedStream

_BOM = b"\xef\xbb\xbf"


def read_jsonl(stream: ByteStream, *, max_bytes: int) -> Iterator[Document | Reject]:
    """One item for each line that is not blank, in order; a damaged end is the last item."""
    try:
        first = True
        while line := stream.readline(MAX_RECORD_BYTES):
            if len(line) == MAX_RECORD_BYTES and not line.endswith(b"\n"):
                stream.skip_line()
                yield Reject.TOO_LONG
            else:
                line = line.removeprefix(_BOM) if first else line
                if not line.isspace() and line:
                    yield _parse(line, max_bytes)
            first = False
    except DamagedStream as damage:
        yield damage.reason


def _parse(line: bytes, max_bytes: int) -> Document | Reject:
    if b"\x00" in line:
        return Reject.NUL_BYTES
    try:
        fields = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        return Reject.INVALID_UTF8
    except (ValueError, RecursionError):  # also numbers of 5,000 digits and "[" * 100,000
        return Reject.BAD_JSON
    if not isinstance(fields, dict):
        return Reject.NOT_AN_OBJECT
    return to_document(fields, max_bytes=max_bytes)
