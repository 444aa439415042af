import pytest

from pipeline.failures import KILLS_PROCESS, OUT_OF_MEMORY
from pipeline.limits import FailureLimits, TooManyFailures
from pipeline.rundir import DoneMark
from tools.usage import ToolUsage


def mark(rows: int, dropped: dict[str, int], **tools: ToolUsage) -> DoneMark:
    return DoneMark(
        unit_id="0000000", documents=rows, rows=rows, dropped=dropped, bytes=1, blake2b="",
        seconds={}, tokens={}, tools=tools, finished_at=0.0,
    )  # fmt: skip


def limits(documents: float = 0.05, calls: float = 0.5) -> FailureLimits:
    return FailureLimits(max_failed_documents=documents, max_failed_calls=calls)


def test_a_share_that_is_allowed_goes_on_and_one_document_more_stops() -> None:
    counted = limits(0.05)
    for _ in range(9):
        counted.count(mark(100, {OUT_OF_MEMORY: 3, KILLS_PROCESS: 2, "empty_text": 40}))
    with pytest.raises(
        TooManyFailures, match=r"^51 of 1000 documents failed \(kills_process 20, ou"
    ):
        counted.count(mark(100, {OUT_OF_MEMORY: 4, KILLS_PROCESS: 2}))


def test_the_first_documents_are_taken_as_if_there_were_a_hundred() -> None:
    counted = limits(0.02)
    counted.count(mark(4, {KILLS_PROCESS: 2}))
    with pytest.raises(TooManyFailures, match="3 of 8 documents failed"):
        counted.count(mark(4, {KILLS_PROCESS: 1}))


def test_what_is_wrong_with_a_text_is_no_failure() -> None:
    limits(0.0).count(mark(4, {"empty_text": 2, "invalid_utf8": 2}))


def test_nothing_may_fail_where_the_limit_is_nothing() -> None:
    with pytest.raises(TooManyFailures, match="1 of 4 documents"):
        limits(0.0).count(mark(4, {KILLS_PROCESS: 1}))


def test_each_tool_has_its_own_share() -> None:
    good = ToolUsage(requests=500, statuses={"ok": 100, "empty": 200, "invalid": 200})
    counted = limits(calls=0.5)
    counted.count(mark(4, {}, QA=good, MT=ToolUsage(requests=90, statuses={"timeout": 50})))
    with pytest.raises(TooManyFailures, match="tool MT: 61 of 120 calls failed, more"):
        counted.count(
            mark(4, {}, QA=good, MT=ToolUsage(requests=30, statuses={"failed": 11, "ok": 19}))
        )
