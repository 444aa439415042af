"""The text x that M reads for a tool: a document, or for MT one paragraph of it.

A window is tokenised by itself, c_w = tok(" " + paragraph.strip()): it is what follows "Output:".
Positions are mapped to the document's canonical tokens through byte offsets, so that what is
sampled in a window stands in the document like any other call.

Shape suffix: n canonical tokens of the window.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import MT
from pipeline.documents.foreign_text import Verdict
from pipeline.tokens import Ids, TokenCodec, stripped_span


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A text for M. `span` are its bytes in the text of the document.

    `place_n` is, for each canonical token of the window, the position in the document of a call
    before it; -1 where no call can stand.
    """

    span: tuple[int, int]
    text: str  # without the white space around it
    x_ids: Ids
    place_n: NDArray[np.int32]

    def position_of(self, place: int) -> int:
        """The position in the window of a position in the document."""
        return int(np.flatnonzero(self.place_n == place)[0])


def windows_of(row: Mapping[str, Any], tool: str, codec: TokenCodec) -> list[Window]:
    """What M reads of an IN_FLIGHT row that is offered to `tool`, in the order of the text."""
    document = _document(row, codec)
    if tool != MT:
        return [document]
    return [
        _paragraph(row["text"], document, (paragraph["byte_start"], paragraph["byte_end"]), codec)
        for paragraph in row["paragraphs"]
        if paragraph["verdict"] == Verdict.OFFERED
    ]


def _document(row: Mapping[str, Any], codec: TokenCodec) -> Window:
    x_ids = np.asarray(row["input_ids"], dtype=np.int32)
    legal_n = codec.legal_positions(x_ids)
    return Window(
        span=(0, len(row["text"].encode())),
        text=row["text"].strip(),
        x_ids=x_ids,
        place_n=np.where(legal_n, np.arange(len(x_ids)), -1).astype(np.int32),
    )


def _paragraph(text: str, document: Window, span: tuple[int, int], codec: TokenCodec) -> Window:
    """The window of the bytes `span`; the document itself when there is nothing else in it."""
    line = text.encode()[span[0] : span[1]].decode()
    if line.strip() == document.text:
        return document
    x_ids = codec.canonical(line)
    start, _ = stripped_span(line)
    first = span[0] + len(line[:start].encode())
    return Window(
        span=span,
        text=line.strip(),
        x_ids=x_ids,
        place_n=_places(text, document, first, x_ids, codec),
    )


def _places(
    text: str, document: Window, first: int, x_ids: Ids, codec: TokenCodec
) -> NDArray[np.int32]:
    """Positions in the document [n] of a window whose first character is byte `first` of `text`.

    A place is legal where tokens of the document begin, too. The space before the window is there
    in the document or is not; where it is not, a call before it and one after it stand in the
    same place, and the first of the two counts.
    """
    # As the document's tokens spell it: " " + text.strip(), so one byte further on.
    body = b" " + document.text.encode()
    first += 1 - len(text[: stripped_span(text)[0]].encode())
    offset_n = first - 1 + codec.byte_offsets(x_ids)[:-1]
    if body[first - 1 : first] != b" ":
        offset_n[0] = first
    begins = codec.byte_offsets(document.x_ids)[:-1]
    index_n = np.minimum(np.searchsorted(begins, offset_n), len(begins) - 1)
    legal_n = codec.legal_positions(x_ids) & (begins[index_n] == offset_n)
    legal_n &= np.diff(offset_n, prepend=-1) > 0
    return np.where(legal_n, index_n, -1).astype(np.int32)
