"""x with its calls at their positions: x* = x[1:i-1], e(c_i, r_i), x[i:n] (paper section 2)."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.tokens import TokenCodec, stripped_span
from tools.base import ContractError
from tools.calls import ApiCall, pieces_with_result


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptCall:
    """A call that goes into a document, before token `position` of its canonical tokens."""

    call: ApiCall
    position: int
    result: str
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainDocument:
    """A document of C: its text and its canonical tokens."""

    doc_id: str
    text: str
    input_ids: NDArray[np.int32]

    @property
    def text_hash(self) -> str:
        """blake2b-128 of the text's UTF-8 bytes, in hexadecimal."""
        return hashlib.blake2b(self.text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentedDocument:
    """A document of C*. `spans[j]` are the bytes of `text` that `calls[j]` occupies."""

    source: PlainDocument
    text: str
    input_ids: NDArray[np.int32]
    calls: tuple[KeptCall, ...]
    spans: tuple[tuple[int, int], ...]


def merge(source: PlainDocument, calls: Iterable[KeptCall], codec: TokenCodec) -> AugmentedDocument:
    """`source` with all `calls` interleaved, as text and, spliced token by token, as tokens.

    Differs from the paper: it leaves open how calls of several tools at one position are
    ordered; they stand in the order of the tools' names.

    Raises:
        ContractError: the tokens are not those of the text, or taking the calls out again does
            not give the source back.
    """
    _check_tokens(source, source.text, source.input_ids, codec)
    ordered = sorted(calls, key=lambda kept: (kept.position, kept.call.tool))
    pieces = [pieces_with_result(kept.call, kept.result) for kept in ordered]
    text, spans = codec.spliced_text(
        source.text,
        source.input_ids,
        [(kept.position, "".join(p)) for kept, p in zip(ordered, pieces, strict=True)],
    )
    input_ids = codec.splice(
        source.input_ids,
        [(kept.position, codec.encode_pieces(p)) for kept, p in zip(ordered, pieces, strict=True)],
    )
    augmented = AugmentedDocument(
        source=source,
        text=text,
        input_ids=input_ids,
        calls=tuple(ordered),
        spans=tuple(spans),
    )
    check(augmented)
    _check_tokens(source, text, input_ids, codec)
    return augmented


def check(document: AugmentedDocument) -> None:
    """Nothing, if every span holds its call and the text without the spans is the source.

    Raises:
        ContractError: otherwise.
    """
    if without_spans(document.text, document.spans) != document.source.text.encode():
        raise ContractError(
            stage="build",
            doc_id=document.source.doc_id,
            got="a text that differs from its source where no call was inserted",
            expected="the source byte for byte",
        )
    text = document.text.encode()
    for kept, (start, end) in zip(document.calls, document.spans, strict=True):
        expected = "".join(pieces_with_result(kept.call, kept.result))
        if text[start:end].decode(errors="replace").strip(" ") != expected.strip(" "):
            raise ContractError(
                stage="build",
                doc_id=document.source.doc_id,
                got=f"{text[start:end]!r} at bytes {start} to {end}",
                expected=expected,
            )


def _check_tokens(
    source: PlainDocument, text: str, input_ids: NDArray[np.int32], codec: TokenCodec
) -> None:
    """Nothing, if the tokens spell a space and `text` without the white space around the source.

    Raises:
        ContractError: otherwise.
    """
    start, end = stripped_span(source.text)
    stripped = text[start : len(text) - (len(source.text) - end)]
    if b"".join(codec.token_bytes(input_ids.tolist())) != (" " + stripped).encode():
        raise ContractError(
            stage="build",
            doc_id=source.doc_id,
            got="input_ids that do not spell the text",
            expected="the tokens of the text",
        )


def without_spans(text: str, spans: Sequence[tuple[int, int]]) -> bytes:
    """The UTF-8 bytes of `text` outside `spans`, which are ascending and do not overlap."""
    data, outside, end = text.encode(), [], 0
    for start, stop in spans:
        outside.append(data[end:start])
        end = stop
    return b"".join([*outside, data[end:]])
