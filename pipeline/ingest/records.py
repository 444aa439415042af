"""One input record -> one document, or the reason why it is none."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

# The first of these that is not null. CCNet and RedPajama-V2 say raw_content, C4 and FineWeb text.
TEXT_FIELDS = ("raw_content", "text", "content")
DATE_FIELDS = ("date_download", "timestamp", "date")
ID_FIELDS = ("digest", "doc_id")
STRING_FIELDS = (
    *TEXT_FIELDS, *DATE_FIELDS, *ID_FIELDS, "url", "title", "language", "source_domain",
)  # fmt: skip


class Reject(StrEnum):
    """Why a record became no document. Each record read has one reason or one document."""

    BAD_JSON = "bad_json"
    NOT_AN_OBJECT = "not_an_object"
    NO_TEXT = "no_text"  # no text field, or one that is not a string
    EMPTY_TEXT = "empty_text"  # nothing but white space
    INVALID_UTF8 = "invalid_utf8"  # bytes that are not UTF-8, or a lone surrogate such as \ud800
    NUL_BYTES = "nul_bytes"
    TOO_LONG = "too_long"
    DUPLICATE_DOC_ID = "duplicate_doc_id"
    WARC_RESPONSE = "warc_response_not_text"  # HTML is not extracted here: use WET files
    WARC_REQUEST = "warc_request_not_text"
    WARC_METADATA = "warc_metadata_not_text"  # what WAT files consist of
    WARC_OTHER = "warc_other_not_text"
    CORRUPT_WARC = "corrupt_warc"  # bytes that belong to no record
    TRUNCATED_WARC = "truncated_warc"
    TRUNCATED_GZIP = "truncated_gzip"
    CORRUPT_GZIP = "corrupt_gzip"
    DAMAGED_ZSTD = "damaged_zstd"


# The file ends before its end: the unread rest counts as one record.
DAMAGE = frozenset(
    {Reject.TRUNCATED_WARC, Reject.TRUNCATED_GZIP, Reject.CORRUPT_GZIP, Reject.DAMAGED_ZSTD}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One row of DOCUMENTS. Every string is valid UTF-8 without NUL."""

    doc_id: str
    text: str
    url: str | None
    title: str | None
    date_download: str | None
    language: str | None
    language_score: float | None
    source_domain: str | None


def to_document(fields: Mapping[str, object], *, max_bytes: int) -> Document | Reject:
    """The document in one record; its text is the record's, byte for byte.

    The doc_id is the CCNet digest (or the doc_id) the record brings; without one it is
    "blake2b:" + 128 bits of hash over url, newline and text. Fields other than the text that
    do not have the type of their column become null.
    """
    text = _first(fields, TEXT_FIELDS)
    if not isinstance(text, str):
        return Reject.NO_TEXT
    if not text.strip():
        return Reject.EMPTY_TEXT
    url = _string(fields.get("url"))
    document = Document(
        doc_id=_string(_first(fields, ID_FIELDS)) or "",
        text=text,
        url=url,
        title=_string(fields.get("title")),
        date_download=_string(_first(fields, DATE_FIELDS)),
        language=_string(fields.get("language")),
        language_score=_score(fields.get("language_score")),
        source_domain=_string(fields.get("source_domain")) or _domain(url),
    )
    reason = _unusable(document, max_bytes)
    if reason is not None:
        return reason
    return document if document.doc_id else _with_hashed_id(document)


def _unusable(document: Document, max_bytes: int) -> Reject | None:
    small = (
        document.doc_id, document.url, document.title, document.date_download,
        document.language, document.source_domain,
    )  # fmt: skip
    strings = "\n".join(value for value in small if value)
    try:
        strings.encode("utf-8")
        num_bytes = len(document.text.encode("utf-8"))
    except UnicodeEncodeError:
        return Reject.INVALID_UTF8
    if "\x00" in document.text or "\x00" in strings:
        return Reject.NUL_BYTES
    return Reject.TOO_LONG if num_bytes > max_bytes else None


def _with_hashed_id(document: Document) -> Document:
    key = f"{document.url or ''}\n{document.text}".encode()
    doc_id = "blake2b:" + hashlib.blake2b(key, digest_size=16).hexdigest()
    values = {name: getattr(document, name) for name in Document.__slots__}
    return Document(**(values | {"doc_id": doc_id}))


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _score(value: object) -> float | None:
    # Compared as Python numbers: JSON may hold integers too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= 1e30 and not math.isnan(value) else None


def _domain(url: str | None) -> str | None:
    try:
        return urlsplit(url or "").netloc or None
    except ValueError:  # "http://[": half an IPv6 address
        return None
