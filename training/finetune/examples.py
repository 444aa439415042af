"""C* or C as sequences to train on: the same documents, windows and order of both.

Shape suffix: n tokens of a sequence.
"""

import hashlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from pipeline.tokens import TokenCodec
from tools.base import InputError
from training.finetune.config import FinetuneConfig
from training.finetune.selection import (
    Counted,
    SelectedDocument,
    kept_before,
    select,
    whole_document,
)
from training.finetune.windows import windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A sequence: the begin-of-text token where the model has one, then tokens of a document.

    `trained[i]` is whether token i is learned: not the first, and none that an earlier window of
    the document trains on. `num_calls` are the calls whose tokens are learned here.
    """

    doc_id: str
    input_ids: NDArray[np.int32]  # [n]
    trained: NDArray[np.bool_]  # [n]
    num_calls: int


class Examples(Sequence[Example]):
    """Examples in one array of tokens: 125,000 of 1,024 tokens are 0.5 GB."""

    def __init__(self) -> None:
        self._tokens = array("i")
        self._ends = array("q", [0])
        self._first_trained = array("i")
        self._num_calls = array("i")
        self._doc_ids: list[str] = []
        self._order: NDArray[np.int64] | None = None

    def append(
        self, doc_id: str, ids_n: NDArray[np.int32], *, first_trained: int, num_calls: int
    ) -> None:
        """Adds an example of which the tokens from `first_trained` on are learned."""
        self._tokens.frombytes(ids_n.astype(np.intc, copy=False).tobytes())
        self._ends.append(len(self._tokens))
        self._first_trained.append(first_trained)
        self._num_calls.append(num_calls)
        self._doc_ids.append(doc_id)

    def sort(self, keys: NDArray[np.uint64]) -> None:
        """Orders the examples by `keys`, one for each in the order they were added."""
        self._order = np.argsort(keys, kind="stable")

    @property
    def num_trained(self) -> int:
        """Tokens that are learned."""
        return len(self._tokens) - sum(self._first_trained)

    def __len__(self) -> int:
        return len(self._doc_ids)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[j] for j in range(*index.indices(len(self)))]
        j = range(len(self))[index]
        if self._order is not None:
            j = int(self._order[j])
        tokens = np.frombuffer(self._tokens, dtype=np.intc)
        ids_n = tokens[self._ends[j] : self._ends[j + 1]].astype(np.int32)
        return Example(
            doc_id=self._doc_ids[j],
            input_ids=ids_n,
            trained=np.arange(len(ids_n)) >= self._first_trained[j],
            num_calls=self._num_calls[j],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet:
    """What is trained on, in the order in which it is.

    Documents of the dataset are `documents` and dropped["documents_without_calls"]; its calls are
    those of `calls` and the others of `dropped`. For C the numbers are the same: its documents are
    those of C*, and `calls` what it does not have of them.
    """

    examples: Examples
    documents: int
    calls: Mapping[str, int]  # by tool
    dropped: Mapping[str, int]  # by reason
    doc_ids: frozenset[str]
    text_hashes: frozenset[str]  # blake2b-128 of the texts without calls


def load_training_set(config: FinetuneConfig, codec: TokenCodec) -> TrainingSet:
    """What to train on of the run's `config.dataset`: the same documents, cut at the same tokens
    of the text, and in the same order, for C* and for C. The order follows from the seed and the
    doc_ids.

    Raises:
        InputError: the run is not built, a dataset cannot be read or is of another tokenizer, or
            there is nothing to train on.
    """
    bos = first_tokens(codec)
    limit = config.sequence_tokens - len(bos)
    counted, examples = Counted(), Examples()
    doc_ids: set[str] = set()
    text_hashes: set[str] = set()
    keys: list[int] = []
    for document in select(config, codec, limit=limit, counted=counted):
        doc_ids.add(document.doc_id)
        text_hashes.add(document.text_hash)
        with_calls = config.dataset == "dataset" and not document.is_plain
        pieces = _pieces(document, codec, limit, with_calls=with_calls)
        for number, piece in enumerate(pieces):
            # The first token of a sequence has nothing before it that predicts it.
            examples.append(
                document.doc_id,
                np.concatenate((bos, piece.ids_n)),
                first_trained=max(1, len(bos) + piece.num_context),
                num_calls=piece.num_calls,
            )
            keys.append(_key(config.seed, document.doc_id, number))
    if not examples:
        raise InputError(
            f"{config.run / 'dataset'}: no document with a call to train on; build the run with "
            "a lower tau_f"
        )
    examples.sort(np.array(keys, dtype=np.uint64))
    return TrainingSet(
        examples=examples,
        documents=counted.documents,
        calls=dict(sorted(counted.calls.items())),
        dropped=dict(sorted(counted.dropped.items())),
        doc_ids=frozenset(doc_ids),
        text_hashes=frozenset(text_hashes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A window of a document, of which the first `num_context` tokens are not learned."""

    ids_n: NDArray[np.int32]
    num_context: int
    num_calls: int


def _pieces(
    document: SelectedDocument, codec: TokenCodec, limit: int, *, with_calls: bool
) -> Iterator[_Piece]:
    """The windows of a document of C*, or the same of C: the tokens of the calls left out."""
    ids_n = _with_end(document, codec)
    before = kept_before(len(ids_n), [] if with_calls else document.calls)
    kept_n = ids_n[np.diff(before) > 0]
    for window in windows(len(ids_n), document.calls, limit):
        start, trained_from, end = (
            int(before[place]) for place in (window.start, window.trained_from, window.end)
        )
        learned = sum(window.trained_from <= call[0] < window.end for call in document.calls)
        yield _Piece(
            ids_n=kept_n[start:end],
            num_context=trained_from - start,
            num_calls=learned if with_calls else 0,
        )


def _with_end(document: SelectedDocument, codec: TokenCodec) -> NDArray[np.int32]:
    """The tokens and the end-of-text token, where the model has one and the document ends here.

    A part of a longer document does not end it, and which part is the last is not known.
    """
    if codec.eos_id is None or whole_document(document.doc_id) is not None:
        return document.ids_n
    return np.concatenate((document.ids_n, _ids([codec.eos_id])))


def _key(seed: int, doc_id: str, window: int) -> int:
    """The place of a window in the order of training."""
    key = "\x1f".join((str(seed), doc_id, str(window)))
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def first_tokens(codec: TokenCodec) -> NDArray[np.int32]:
    """What every sequence begins with: the begin-of-text token, or nothing."""
    return _ids([] if codec.bos_id is None else [codec.bos_id])


def _ids(token_ids: Sequence[int]) -> NDArray[np.int32]:
    return np.array(token_ids, dtype=np.int32)
