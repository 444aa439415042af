"""Trying again what failed: which documents did, and their place in a finished unit.

Documents that did not fail stay as they were committed, also where an engine would not repeat
them to the last digit. A driver that dies between a unit's new file and its new mark leaves a unit
that is not finished: the next plain run makes it again, whole.
"""

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa

from pipeline.unit_counts import count_rows
from tools.base import ContractError


def with_retried(before: pa.Table, after: pa.Table) -> pa.Table:
    """The unit as it was, with the rows of documents that failed taken from `after`.

    Raises:
        ContractError: `after` has other documents.
    """
    old, new = list(_documents(before)), list(_documents(after))
    if [doc_id for doc_id, _ in old] != [doc_id for doc_id, _ in new]:
        raise ContractError(
            stage="commit",
            doc_id="(unit)",
            got=f"{len(new)} documents, in another order or number",
            expected=f"the same {len(old)} documents as before",
        )
    pieces = [
        again if failed else was
        for (_, was), (_, again), failed in zip(old, new, count_rows(before).failed, strict=True)
    ]
    return pa.concat_tables(pieces).combine_chunks()


def _documents(scored: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The id of each document of the input, and its rows: several where it was split."""
    ids, parts = scored.column("doc_id").to_pylist(), scored.column("part").to_pylist()
    for row, end in pairwise([*count_rows(scored).first_row, scored.num_rows]):
        doc_id = ids[row].rpartition("#")[0] if parts[row] else ids[row]
        yield doc_id, scored.slice(row, end - row)
