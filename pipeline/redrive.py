"""Trying again what failed: which documents did, and their place in a finished unit.

Documents that did not fail stay as they were committed, also where an engine would not repeat
them to the last digit. A driver that dies between a unit's new file and its new mark leaves a unit
that is not finished: the next plain run makes it again, whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from pipeline.failures import FAILURES
from tools.base import ContractError, ToolStatus

_FAILED_CALL = {str(ToolStatus.FAILED), str(ToolStatus.TIMEOUT)}


@dataclass(frozen=True, slots=True)
class _Document:
    """The rows of one source document in a unit: several where it was split into parts."""

    doc_id: str
    row_start: int
    num_rows: int
    failed: bool


def count_failed(scored: pa.Table) -> int:
    """Documents of a unit that failed, or that have a call whose tool did."""
    return sum(document.failed for document in _documents(scored))


def with_retried(before: pa.Table, after: pa.Table) -> pa.Table:
    """The unit as it was, with the rows of documents that failed taken from `after`.

    Raises:
        ContractError: `after` has other documents.
    """
    old, new = _documents(before), _documents(after)
    if [document.doc_id for document in old] != [document.doc_id for document in new]:
        raise ContractError(
            stage="commit",
            doc_id="(unit)",
            got=f"{len(new)} documents, in another order or number",
            expected=f"the same {len(old)} documents as before",
        )
    pieces = [
        after.slice(again.row_start, again.num_rows)
        if was.failed
        else before.slice(was.row_start, was.num_rows)
        for was, again in zip(old, new, strict=True)
    ]
    return pa.concat_tables(pieces).combine_chunks()


def _documents(scored: pa.Table) -> list[_Document]:
    rows = scored.select(["doc_id", "part", "dropped", "calls"]).to_pylist()
    documents, row_start = [], 0
    for doc_id, group in groupby(rows, key=_source_id):
        parts = list(group)
        failed = any(map(_failed, parts))
        documents.append(_Document(doc_id, row_start, len(parts), failed))
        row_start += len(parts)
    return documents


def _source_id(row: Mapping[str, Any]) -> str:
    doc_id: str = row["doc_id"]
    return doc_id.rpartition("#")[0] if row["part"] else doc_id


def _failed(row: Mapping[str, Any]) -> bool:
    return row["dropped"] in FAILURES or any(
        call["status"] in _FAILED_CALL for call in row["calls"]
    )
