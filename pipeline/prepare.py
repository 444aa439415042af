"""Documents as the model sees them: canonical tokens, parts that fit, tools they are offered to.

Nothing is removed here: a document that goes no further says why in `dropped`.
"""

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.documents.offers import offered_tools
from pipeline.documents.splitting import split_text
from pipeline.method import Method
from pipeline.reading import SourceDocument
from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import NotLossless, TokenCodec
from tools.calendar_date import date_from_url


def prepare(
    documents: Iterable[SourceDocument], unit_id: str, method: Method, codec: TokenCodec
) -> pa.Table:
    """The unit as IN_FLIGHT rows, one for each document or part of one, in input order."""
    rows = [
        {"unit_id": unit_id, "trace": "{}", "positions": [], "calls": [], **row}
        for document in documents
        for row in _rows(document, method, codec)
    ]
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def _rows(document: SourceDocument, method: Method, codec: TokenCodec) -> Iterator[dict[str, Any]]:
    date = document_date(document)
    common = {"url": document.url, "date": date, "language": document.language}
    dropped = document.dropped or _unusable(document.text, method)
    if dropped is not None:
        yield common | {
            "doc_id": document.doc_id, "part": 0, "text": "",
            "dropped": dropped, "input_ids": [], "offers": [],
        }  # fmt: skip
        return
    parts = split_text(document.text, codec.count, method.max_document_tokens)
    for number, text in enumerate(parts, start=1):
        doc_id = document.doc_id if len(parts) == 1 else f"{document.doc_id}#{number}"
        part = 0 if len(parts) == 1 else number
        yield (
            common
            | {"doc_id": doc_id, "part": part, "text": text}
            | _tokens_and_offers(doc_id, text, date, document, method, codec)
        )


def _tokens_and_offers(
    doc_id: str,
    text: str,
    date: dt.date | None,
    document: SourceDocument,
    method: Method,
    codec: TokenCodec,
) -> dict[str, Any]:
    if not text.strip():
        return {"dropped": "empty_text", "input_ids": [], "offers": []}
    try:
        ids = codec.canonical(text)
    except NotLossless:
        return {"dropped": "not_lossless", "input_ids": [], "offers": []}
    offers = offered_tools(text=text, doc_id=doc_id, date=date, tools=list(method.tools))
    return {
        "dropped": None if offers else "not_offered",
        "input_ids": ids,
        "offers": [{"tool": tool, "reason": reason} for tool, reason in offers],
    }


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
