"""Which documents are trained on, and with which of their calls (Appendix B).

Shape suffix: n tokens of a document.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from pipeline.build.cap import ExampleCap, rank
from pipeline.build.dataset import BUILD_MARK
from pipeline.build.mark import built_summary, read_build_mark
from pipeline.rundir import RunDir
from pipeline.tokens import TokenCodec
from tools.base import InputError
from tools.places import Place
from training.finetune.built import (
    BuiltDocument,
    PlacedCall,
    place_calls,
    read_documents,
    read_tools,
)
from training.finetune.config import FinetuneConfig
from training.finetune.windows import Span, too_long

_OVER_CAP, _TOO_LONG = "calls_over_cap", "calls_longer_than_a_window"
_NO_CALL, _PLAIN = "documents_without_calls", "calls_of_plain_share"
_RANKS = 2**128
_PART = re.compile(r"(.*)#[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedDocument:
    """A document of C* without the calls that are not trained on: `calls` are those that are.

    One that `is_plain` is trained on without any, cut as it is with them.
    """

    doc_id: str
    text_hash: str
    ids_n: NDArray[np.int32]
    calls: list[Span]
    is_plain: bool


@dataclass(slots=True, kw_only=True)
class Counted:
    """What became of the documents and calls of a dataset.

    The documents are `documents` and those dropped without calls; the calls are those of `calls`
    and those dropped over the cap, longer than a window, or of documents of the plain share.
    """

    documents: int = 0
    calls: Counter[str] = field(default_factory=Counter)  # by tool
    dropped: Counter[str] = field(
        default_factory=lambda: Counter({_OVER_CAP: 0, _TOO_LONG: 0, _PLAIN: 0, _NO_CALL: 0})
    )


def whole_document(doc_id: str) -> str | None:
    """The doc_id of the document that this can be a part of ("a" for "a#2"); None for others."""
    part = _PART.fullmatch(doc_id)
    return None if part is None else part.group(1)


def select(
    config: FinetuneConfig, codec: TokenCodec, *, limit: int, counted: Counted
) -> Iterator[SelectedDocument]:
    """The documents to train on in the dataset's order, counted in `counted` as they come.

    Each tool has at most max_examples documents, chosen by the seed; calls of a tool in others
    are taken out, and calls that have no place in a window of `limit` tokens. A document with no
    call left is dropped.

    Raises:
        InputError: the run is not built, a dataset cannot be read, or is of another tokenizer.
    """
    run = RunDir(config.run)
    built = built_summary(run, read_build_mark(run))
    directory, plain = config.run / "dataset", config.run / "dataset_plain"
    cap = ExampleCap(config.seed, dict.fromkeys(built.tools, config.max_examples))
    for doc_id, tools in read_tools(directory):
        for tool in tools:
            if tool not in built.tools:
                raise InputError(
                    f"{directory}: document {doc_id}: a call of {tool}, which {BUILD_MARK} does "
                    "not name; build the run again"
                )
            cap.offer(tool, doc_id)
    rows = read_documents(directory, documents=built.documents)
    plain_rows: Iterable[BuiltDocument | None] = repeat(None, built.documents)
    if config.dataset == "dataset_plain":
        plain_rows = read_documents(plain, documents=built.documents)
    for document, without in zip(rows, plain_rows, strict=True):
        placed = place_calls(document, codec, where=directory)
        if without is not None:
            _check_plain(plain, document, placed, without)
        is_plain = rank(config.seed, "", document.doc_id) < config.plain_share * _RANKS
        selected = _selected(document, placed, cap, limit, counted, is_plain=is_plain)
        if selected is not None:
            yield selected


def _check_plain(
    plain: Place, document: BuiltDocument, placed: Sequence[PlacedCall], without: BuiltDocument
) -> None:
    """Nothing, if `without` is the document without its calls.

    Raises:
        InputError: otherwise.
    """
    expected, _ = taken_out(document.input_ids, [(call.start, call.end) for call in placed], [])
    if without.doc_id != document.doc_id or not np.array_equal(without.input_ids, expected):
        raise InputError(
            f"{plain}: document {without.doc_id}: is not document {document.doc_id} of dataset "
            "without its calls; build the run again"
        )


def _selected(
    document: BuiltDocument,
    placed: list[PlacedCall],
    cap: ExampleCap,
    limit: int,
    counted: Counted,
    *,
    is_plain: bool,
) -> SelectedDocument | None:
    within = [call for call in placed if cap.admits(call.tool, document.doc_id)]
    counted.dropped[_OVER_CAP] += len(placed) - len(within)
    over_cap = [(call.start, call.end) for call in placed if call not in within]
    ids_n, spans = taken_out(
        document.input_ids, over_cap, [(call.start, call.end) for call in within]
    )
    unfit = set(too_long(spans, limit))
    counted.dropped[_TOO_LONG] += len(unfit)
    left = [j for j in range(len(spans)) if j not in unfit]
    if not left:
        counted.dropped[_NO_CALL] += 1
        return None
    counted.documents += 1
    if is_plain:
        counted.dropped[_PLAIN] += len(left)
    else:
        counted.calls.update(within[j].tool for j in left)
    ids_n, spans = taken_out(ids_n, [spans[j] for j in sorted(unfit)], [spans[j] for j in left])
    return SelectedDocument(
        doc_id=document.doc_id,
        text_hash=document.text_hash,
        ids_n=ids_n,
        calls=spans,
        is_plain=is_plain,
    )


def taken_out(
    ids_n: NDArray[np.int32], gone: list[Span], kept: list[Span]
) -> tuple[NDArray[np.int32], list[Span]]:
    """`ids_n` without the tokens `gone`, and where `kept`, which are others, stand then."""
    if not gone:
        return ids_n, kept
    before = kept_before(len(ids_n), gone)
    stays_n = np.diff(before) > 0
    return ids_n[stays_n], [(int(before[start]), int(before[end])) for start, end in kept]


def kept_before(num_tokens: int, gone: list[Span]) -> NDArray[np.int64]:
    """How many tokens before each place [num_tokens + 1] are not among those `gone`."""
    stays_n = np.ones(num_tokens, dtype=np.int64)
    for start, end in gone:
        stays_n[start:end] = 0
    return np.concatenate(([0], np.cumsum(stays_n)))
