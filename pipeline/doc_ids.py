"""That every doc_id stands for one document: seeds, parts and C* go by it."""

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.reading import open_documents
from tools.base import InputError, one_line

# What splitting makes of the doc_id of a long document.
_PART = re.compile(rb"(.*)#[0-9]+", re.DOTALL)


def check_doc_ids(files: Sequence[Path]) -> None:
    """Nothing, if no doc_id is there twice or could be mistaken for a part of another.

    Costs 8 bytes a document: only hashes are kept, and an id is looked up again to be named.

    Raises:
        InputError: a doc_id is null, stands for two documents, or is "a#1" beside an "a".
    """
    hashes, prefixes = array("Q"), array("Q")
    for path, doc_id in _doc_ids(files):
        if doc_id is None:
            raise InputError(f"{path}: a document has no doc_id (null); give every row one")
        hashes.append(_hash(doc_id))
        part = _PART.fullmatch(doc_id)
        if part is not None:
            prefixes.append(_hash(part.group(1)))
    sorted_ids = np.sort(np.frombuffer(hashes, dtype=np.uint64))
    twice = sorted_ids[1:][sorted_ids[1:] == sorted_ids[:-1]]
    if twice.size:
        _refuse_twice(files, int(twice[0]))
    _refuse_parts(files, np.intersect1d(sorted_ids, np.frombuffer(prefixes, dtype=np.uint64)))


def _refuse_twice(files: Sequence[Path], wanted: int) -> None:
    *_, (path, doc_id) = ((p, i) for p, i in _doc_ids(files) if i and _hash(i) == wanted)
    raise InputError(
        f"{path}: doc_id {_shown(doc_id)} stands for two documents; `python -m pipeline ingest` "
        "drops the second"
    )


def _refuse_parts(files: Sequence[Path], wanted: NDArray[np.uint64]) -> None:
    if not wanted.size:
        return
    for path, doc_id in _doc_ids(files):
        part = _PART.fullmatch(doc_id or b"")
        if part is not None and _hash(part.group(1)) in wanted:
            raise InputError(
                f"{path}: doc_id {_shown(doc_id)} is what a part of document "
                f"{_shown(part.group(1))} would be called; rename it"
            )


def _doc_ids(files: Iterable[Path]) -> Iterator[tuple[Path, bytes | None]]:
    for path in files:
        try:
            for batch in open_documents(path).iter_batches(columns=["doc_id"]):
                for doc_id in batch.column(0).cast(pa.large_binary()).to_pylist():
                    yield path, doc_id
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: cannot read its doc_id: {one_line(error)}") from None


def _hash(doc_id: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(doc_id, digest_size=8).digest(), "little")


def _shown(doc_id: bytes | None) -> str:
    return repr((doc_id or b"").decode(errors="replace"))
