"""The development set: plain documents that are not trained on, drawn by the seed (Appendix B)."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pipeline.build.cap import rank
from pipeline.config import RunConfig
from pipeline.documents.splitting import split_text
from pipeline.reading import SourceDocument, list_document_files, open_documents, read_rows
from pipeline.rundir import RunDir
from pipeline.tokens import NotLossless, TokenCodec
from tools.base import InputError
from tools.places import Place
from training.finetune.config import FinetuneConfig
from training.finetune.examples import Example, TrainingSet, first_tokens
from training.finetune.selection import whole_document


class _Refusal(StrEnum):
    """Why a document that was drawn is not in the development set."""

    BY_ID = "doc_id"
    BY_TEXT = "text"
    UNUSABLE = "unusable"  # `annotate` would drop it, too: no text, too large, not lossless


@dataclass(frozen=True, slots=True, kw_only=True)
class DevelopmentSet:
    """Held-out documents, in the order in which they were drawn.

    Documents drawn are `documents`, `excluded_by_id`, `excluded_by_text` and `unusable`. Where
    `documents` are fewer than the configuration asks for, the input has no more.
    """

    examples: list[Example]
    documents: int
    excluded_by_id: int  # trained on, or a part of one is
    excluded_by_text: int  # so is their text, by another doc_id
    unusable: int


def load_development_set(
    config: FinetuneConfig, codec: TokenCodec, training: TrainingSet
) -> DevelopmentSet:
    """Documents of the development input drawn until there are as many as asked for, as their
    first `sequence_tokens`. Which they are depends on the seed and the doc_ids, not on the order
    of the input, which is read once.

    Raises:
        InputError: the input cannot be read, or all of it is trained on or unusable.
    """
    judge = _Judge(RunDir(config.run).config(), codec, training)
    asked = config.development.documents
    # Of those not refused so far the first drawn, the last drawn of them first: (-draw, n, ...).
    taken: list[tuple[int, int, str, NDArray[np.int32]]] = []
    refused: list[tuple[int, _Refusal]] = []
    num_read = 0
    for num_read, document in enumerate(_documents(config.development.input), start=1):
        draw = rank(config.seed, "development", document.doc_id)
        if len(taken) == asked and draw >= -taken[0][0]:
            continue
        ids = judge.tokens_of(document)
        if isinstance(ids, _Refusal):
            refused.append((draw, ids))
            continue
        entry = (-draw, -num_read, document.doc_id, ids)
        if len(taken) < asked:
            heapq.heappush(taken, entry)
        else:
            heapq.heapreplace(taken, entry)
    last = -taken[0][0] if len(taken) == asked else None
    counts = Counter(why for draw, why in refused if last is None or draw < last)
    if not taken:
        raise InputError(
            f"{config.development.input}: none of its {num_read} documents can be used: "
            f"{counts[_Refusal.BY_ID]} are trained on by their doc_id, {counts[_Refusal.BY_TEXT]} "
            f"by their text, {counts[_Refusal.UNUSABLE]} have no usable text; name others"
        )
    return DevelopmentSet(
        examples=[
            _example(doc_id, ids, codec, config.sequence_tokens)
            for _, _, doc_id, ids in sorted(taken, reverse=True)
        ],
        documents=len(taken),
        excluded_by_id=counts[_Refusal.BY_ID],
        excluded_by_text=counts[_Refusal.BY_TEXT],
        unusable=counts[_Refusal.UNUSABLE],
    )


class _Judge:
    """Says whether a document can be held out, by what is trained on."""

    def __init__(self, run: RunConfig, codec: TokenCodec, training: TrainingSet) -> None:
        wholes = map(whole_document, training.doc_ids)
        self._doc_ids = training.doc_ids | {whole for whole in wholes if whole is not None}
        self._text_hashes = training.text_hashes
        self._run, self._codec = run, codec

    def tokens_of(self, document: SourceDocument) -> NDArray[np.int32] | _Refusal:
        """The canonical tokens of a document, or why it is none to hold out.

        The text of a long document is looked for in parts as well, cut as `annotate` cuts it.
        """
        if {document.doc_id, whole_document(document.doc_id)} & self._doc_ids:
            return _Refusal.BY_ID
        text, most = document.text, self._run.max_document_bytes
        if document.dropped is not None or not text.strip() or len(text.encode()) > most:
            return _Refusal.UNUSABLE
        parts = split_text(text, self._codec.count, self._run.max_document_tokens)
        if any(_text_hash(each) in self._text_hashes for each in {text, *parts}):
            return _Refusal.BY_TEXT
        try:
            return self._codec.canonical(text)
        except NotLossless:
            return _Refusal.UNUSABLE


def _documents(place: Place) -> Iterator[SourceDocument]:
    """Every row of every DOCUMENTS file, one row group in memory at a time."""
    for path in list_document_files([place]):
        with open_documents(path) as file:
            groups = [
                file.metadata.row_group(group).num_rows
                for group in range(file.metadata.num_row_groups)
            ]
        first = 0
        for num_rows in groups:
            yield from read_rows(path, first, num_rows)
            first += num_rows


def _example(
    doc_id: str, ids: NDArray[np.int32], codec: TokenCodec, sequence_tokens: int
) -> Example:
    """The begin-of-text token and the first tokens of a document, which alone are measured."""
    bos = first_tokens(codec)
    input_ids = np.concatenate((bos, ids))[:sequence_tokens]
    return Example(
        doc_id=doc_id,
        input_ids=input_ids,
        trained=np.arange(len(input_ids)) >= 1,
        num_calls=0,
    )


def _text_hash(text: str) -> str:
    """As `source_text_hash` of a dataset."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
