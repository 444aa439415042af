"""Documents as the model sees them: canonical tokens, parts that fit, tools they are offered to.

Nothing is removed here: a document that goes no further says why in `dropped`.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.documents.foreign_text import Identify, Verdict, judge, paragraph_spans
from pipeline.documents.offers import DocumentFacts, offered_tools
from pipeline.documents.splitting import split_text
from pipeline.method import Method
from pipeline.reading import SourceDocument
from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import NotLossless, TokenCodec
from tools.calendar_date import date_from_url


def prepare(
    documents: Iterable[SourceDocument],
    unit_id: str,
    method: Method,
    codec: TokenCodec,
    identify: Identify | None = None,
) -> pa.Table:
    """The unit as IN_FLIGHT rows, one for each document or part of one, in input order.

    `identify` tells languages apart where the method has a filter for MT
    (pipeline.documents.language_id).
    """
    rows = [
        {"unit_id": unit_id, "trace": "{}", "positions": [], "calls": [], **row}
        for document in documents
        for row in _rows(document, method, codec, identify)
    ]
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def _rows(
    document: SourceDocument, method: Method, codec: TokenCodec, identify: Identify | None
) -> Iterator[dict[str, Any]]:
    date = document_date(document)
    common = {"url": document.url, "date": date, "language": document.language}
    dropped = document.dropped or _unusable(document.text, method)
    if dropped is not None:
        yield common | {
            "doc_id": document.doc_id, "part": 0, "text": "",
            "dropped": dropped, "input_ids": [], "offers": [], "paragraphs": None,
        }  # fmt: skip
        return
    parts = split_text(document.text, codec.count, method.max_document_tokens)
    for number, text in enumerate(parts, start=1):
        doc_id = document.doc_id if len(parts) == 1 else f"{document.doc_id}#{number}"
        part = 0 if len(parts) == 1 else number
        yield (
            common
            | {"doc_id": doc_id, "part": part, "text": text}
            | _tokens_and_offers(doc_id, text, date, method, codec, identify)
        )


def _tokens_and_offers(
    doc_id: str,
    text: str,
    date: dt.date | None,
    method: Method,
    codec: TokenCodec,
    identify: Identify | None,
) -> dict[str, Any]:
    nothing: dict[str, Any] = {"input_ids": [], "offers": [], "paragraphs": None}
    if not text.strip():
        return nothing | {"dropped": "empty_text"}
    try:
        ids = codec.canonical(text)
    except NotLossless:
        return nothing | {"dropped": "not_lossless"}
    paragraphs = _paragraphs(text, method, codec, identify)
    facts = DocumentFacts(
        text=text,
        doc_id=doc_id,
        date=date,
        has_foreign_text=any(p["verdict"] == Verdict.OFFERED for p in paragraphs or ()),
    )
    offers = offered_tools(facts, list(method.tools))
    return {
        "dropped": None if offers else "not_offered",
        "input_ids": ids,
        "offers": [{"tool": tool, "reason": reason} for tool, reason in offers],
        "paragraphs": paragraphs,
    }


def _paragraphs(
    text: str, method: Method, codec: TokenCodec, identify: Identify | None
) -> list[dict[str, Any]] | None:
    """Every paragraph of `text` as a schemas.PARAGRAPH; None without a filter for MT."""
    if method.mt_filter is None:
        return None
    assert identify is not None, "a method with a filter for MT needs something to tell languages"
    paragraphs, seen, byte = [], 0, 0
    for begin, end in paragraph_spans(text):
        paragraph = text[begin:end]
        byte += len(text[seen:begin].encode())
        byte_end = byte + len(paragraph.encode())
        verdict = judge(paragraph, identify, method.mt_filter)
        if verdict is Verdict.OFFERED and not _fits(paragraph, method, codec):
            verdict = Verdict.UNUSABLE
        paragraphs.append({"byte_start": byte, "byte_end": byte_end, "verdict": verdict.value})
        seen, byte = end, byte_end
    return paragraphs


def _fits(paragraph: str, method: Method, codec: TokenCodec) -> bool:
    try:
        return len(codec.canonical(paragraph)) <= method.max_document_tokens
    except NotLossless:
        return False


def _unusable(text: str, method: Method) -> str | None:
    if not text.strip():
        return "empty_text"
    if len(text.encode("utf-8")) > method.max_document_bytes:
        return "too_large"
    return None


def document_date(document: SourceDocument) -> dt.date | None:
    """The day the document was written, read from its URL; no later than it was crawled."""
    if document.url is None:
        return None
    crawled = None
    if document.date_download is not None:
        try:
            crawled = dt.date.fromisoformat(document.date_download[:10])
        except ValueError:
            crawled = None
    return date_from_url(document.url, not_after=crawled)
