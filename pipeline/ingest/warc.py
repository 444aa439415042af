"""WET files: the plain text of web pages as Common Crawl publishes it.

The framing is read here and not by a WARC library, because Content-Length is wrong in files
that were edited or had their line ends changed, and a library gives up at the first such
record. A length that leads to the next record is believed; otherwise the record goes up to the
next line that is a WARC version, as in cc_net.
"""

import re
from collections.abc import Iterator

from pipeline.ingest.records import Document, Reject, to_document
from pipeline.ingest.streams import MAX_RECORD_BYTES, ByteStream, DamagedStream

_VERSION_LINE = re.compile(rb"WARC/\d+\.\d+\r?\n")
_VERSION_LINE_INSIDE = re.compile(rb"(?m)^WARC/\d+\.\d+\r?$")
_MAX_HEADER_BYTES = 1 << 16
_MAX_HEADERS = 100
_MAX_BLANK_LINES = 16
_NOT_TEXT = {
    "response": Reject.WARC_RESPONSE,
    "request": Reject.WARC_REQUEST,
    "metadata": Reject.WARC_METADATA,
}


def read_warc(stream: ByteStream, *, max_bytes: int) -> Iterator[Document | Reject]:
    """One item for each record but warcinfo, in order; a damaged end is the last item.

    Conversion records become documents as in cc_net: the first line is the title and not part
    of the text.
    """
    try:
        while line := stream.readline(_MAX_HEADER_BYTES):
            if _VERSION_LINE.fullmatch(line):
                headers = _headers(stream)
                item = _record(headers, _body(stream, headers), max_bytes)
                if item is not None:
                    yield item
            elif not line.isspace():
                _skip_to_record(stream)
                yield Reject.CORRUPT_WARC
    except DamagedStream as damage:
        yield damage.reason


def _headers(stream: ByteStream) -> dict[str, str]:
    """Header values by lower-case name: newer WET files have more headers, in another order."""
    headers: dict[str, str] = {}
    while (line := stream.readline(_MAX_HEADER_BYTES)) and not line.isspace():
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if len(headers) < _MAX_HEADERS:
            headers[name.strip().lower()] = value.strip()
    return headers


def _body(stream: ByteStream, headers: dict[str, str]) -> bytes | None:
    """The record's content, or None if it is longer than can be held.

    Raises:
        DamagedStream: the file ends inside the record.
    """
    text = headers.get("content-length", "")
    length = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None
    if length is None or length > MAX_RECORD_BYTES:
        return _body_to_next_version_line(stream)
    body = stream.read(length)
    after = _lines_to_next_content(stream)
    if len(body) == length and (not after or _VERSION_LINE.fullmatch(after[-1])):
        stream.unread(after[-1] if after else b"")
        return body
    if len(body) < length and not _VERSION_LINE_INSIDE.search(body):
        raise DamagedStream(Reject.TRUNCATED_WARC)
    stream.unread(body + b"".join(after))
    return _body_to_next_version_line(stream)


def _lines_to_next_content(stream: ByteStream) -> list[bytes]:
    """The blank lines that follow (not too many) and what comes next; [] at the end."""
    lines: list[bytes] = []
    while line := stream.readline(_MAX_HEADER_BYTES):
        lines.append(line)
        if not line.isspace() or len(lines) > _MAX_BLANK_LINES:
            return lines
    return []


def _body_to_next_version_line(stream: ByteStream) -> bytes | None:
    lines: list[bytes] = []
    size = 0
    while line := stream.readline(_MAX_HEADER_BYTES):
        if _VERSION_LINE.fullmatch(line):
            stream.unread(line)
            break
        size += len(line)
        if size <= MAX_RECORD_BYTES:
            lines.append(line)
        else:
            lines.clear()
    return b"".join(lines) if size <= MAX_RECORD_BYTES else None


def _skip_to_record(stream: ByteStream) -> None:
    while line := stream.readline(_MAX_HEADER_BYTES):
        if _VERSION_LINE.fullmatch(line):
            stream.unread(line)
            return


def _record(
    headers: dict[str, str], body: bytes | None, max_bytes: int
) -> Document | Reject | None:
    kind = headers.get("warc-type", "")
    if kind == "warcinfo":
        return None  # about the file, not a record of a page
    if kind != "conversion" or not headers.get("content-type", "text/plain").startswith("text/"):
        return _NOT_TEXT.get(kind, Reject.WARC_OTHER)
    if body is None:
        return Reject.TOO_LONG
    try:
        title, _, text = body.decode("utf-8").partition("\n")
    except UnicodeDecodeError:
        return Reject.INVALID_UTF8
    # WARC-Identified-Content-Language lists ISO 639-3 codes ("eng,deu"), not CCNet's one label.
    fields = {
        "digest": headers.get("warc-block-digest"),  # what cc_net takes
        "url": headers.get("warc-target-uri", "").removeprefix("<").removesuffix(">") or None,
        "date_download": headers.get("warc-date"),
        "title": title.strip(),
        "raw_content": text.rstrip("\r\n"),
    }
    return to_document(fields, max_bytes=max_bytes)
