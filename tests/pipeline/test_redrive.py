"""What of a finished unit is replaced when failures are tried again."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.failures import KILLS_PROCESS
from pipeline.redrive import with_retried
from pipeline.schemas import SCORED
from pipeline.unit_counts import count_rows
from tools.base import ContractError


def call(status: str) -> dict[str, Any]:
    return {"tool": "QA", "position": 1, "byte_offset": 2, "input": "x", "status": status}


def row(doc_id: str, part: int = 0, text: str = "old", **changes: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id, "part": part, "text": text, "input_ids": [1], "offers": [],
        "positions": [], "calls": [], "dropped": None,
    } | changes  # fmt: skip


def unit(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCORED)


BEFORE = unit(
    row("a"),
    row("b", dropped=KILLS_PROCESS),
    row("c#1", 1),
    row("c#2", 2, calls=[call("ok"), call("timeout")]),
    row("d", dropped="empty_text"),
    row("e#1", calls=[call("invalid"), call("empty")]),
)


def test_failures_are_documents_that_may_succeed_another_day() -> None:
    counts = count_rows(BEFORE)
    assert counts.first_row == [0, 1, 2, 4, 5]
    assert counts.failed == [False, True, True, False, False]


def test_only_documents_that_failed_are_replaced_whole() -> None:
    after = unit(
        row("a", text="new"),
        row("b#1", 1, text="new"),
        row("b#2", 2, text="new"),
        row("c", text="new"),
        row("d", text="new"),
        row("e#1", text="new"),
    )
    merged = with_retried(BEFORE, after)
    assert list(
        zip(merged.column("doc_id").to_pylist(), merged.column("text").to_pylist(), strict=True)
    ) == [
        ("a", "old"), ("b#1", "new"), ("b#2", "new"), ("c", "new"), ("d", "old"), ("e#1", "old"),
    ]  # fmt: skip
    assert merged.schema == SCORED


def test_other_documents_are_refused() -> None:
    with pytest.raises(ContractError, match="got 1 documents, in another order or number"):
        with_retried(BEFORE, unit(row("a")))
