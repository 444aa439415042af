"""That every doc_id stands for one document: seeds, parts and C* go by it."""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.reading import open_documents
from tools.base import InputError
from tools.places import Place, store_errors, why

# What splitting makes of the doc_id of a long document.
_PART = re.compile(rb"(.*)#[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedIds:
    """The doc_ids of a file as Python's hashes of their bytes, which hold in this process alone:
    hashing is most of the work here, and a cryptographic hash takes ten times as long.
    """

    ids: NDArray[np.int64]
    prefixes: NDArray[np.int64]  # "a" for each "a#1"


def hash_doc_ids(path: Place, file: pq.ParquetFile) -> HashedIds:
    """The doc_ids of an open DOCUMENTS file, in 8 bytes each.

    Raises:
        InputError: a doc_id is null, or the column cannot be read.
    """
    ids, prefixes = array("q"), array("q")
    for column in _id_columns(path, file):
        if column.null_count:
            raise InputError(f"{path}: a document has no doc_id (null); give every row one")
        ids.extend(map(hash, column.to_pylist()))
        for doc_id in column.filter(pc.match_substring(column, "#")).to_pylist():
            part = _PART.fullmatch(doc_id)
            if part is not None:
                prefixes.append(hash(part.group(1)))
    return HashedIds(
        ids=np.frombuffer(ids, dtype=np.int64), prefixes=np.frombuffer(prefixes, dtype=np.int64)
    )


def check_doc_ids(
    files: Sequence[Place], ids: NDArray[np.int64], prefixes: NDArray[np.int64]
) -> None:
    """Nothing, if no doc_id of `files` is there twice or could be taken for a part of another.

    `ids` and `prefixes` are all of theirs, hashed; `ids` is sorted here. An id is read again
    only to be named.

    Raises:
        InputError: a doc_id stands for two documents, or is "a#1" beside an "a".
    """
    ids.sort()
    twice = ids[1:][ids[1:] == ids[:-1]]
    if twice.size:
        _refuse_twice(files, set(twice.tolist()))
    places = np.searchsorted(ids, prefixes).clip(max=max(len(ids) - 1, 0))
    parts = prefixes[ids[places] == prefixes]
    if parts.size:
        _refuse_parts(files, set(parts.tolist()))


def _refuse_twice(files: Sequence[Place], suspects: set[int]) -> None:
    seen: set[bytes] = set()
    for path, doc_id in _doc_ids(files):
        if hash(doc_id) in suspects:
            if doc_id in seen:
                raise InputError(
                    f"{path}: doc_id {_shown(doc_id)} stands for two documents; "
                    "`python -m pipeline ingest` drops the second"
                )
            seen.add(doc_id)


def _refuse_parts(files: Sequence[Place], suspects: set[int]) -> None:
    wholes = {doc_id for _, doc_id in _doc_ids(files) if hash(doc_id) in suspects}
    for path, doc_id in _doc_ids(files):
        part = _PART.fullmatch(doc_id)
        if part is not None and part.group(1) in wholes:
            raise InputError(
                f"{path}: doc_id {_shown(doc_id)} is what a part of document "
                f"{_shown(part.group(1))} would be called; rename it"
            )


def _doc_ids(files: Iterable[Place]) -> Iterator[tuple[Place, bytes]]:
    for path in files:
        with open_documents(path) as file:
            for column in _id_columns(path, file):
                yield from ((path, doc_id) for doc_id in column.to_pylist())


def _id_columns(path: Place, file: pq.ParquetFile) -> Iterator[pa.Array]:
    try:
        with store_errors(path):
            for batch in file.iter_batches(columns=["doc_id"]):
                yield batch.column(0).cast(pa.large_binary())
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot read its doc_id: {why(error)}") from None


def _shown(doc_id: bytes) -> str:
    return repr(doc_id.decode(errors="replace"))
