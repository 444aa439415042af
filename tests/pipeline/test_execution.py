import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.execution import cap_result, distinct_requests, insertable
from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import TokenCodec
from tools.base import ToolRequest, ToolResult, ToolStatus

DEMO_MODEL = Path("pipeline/demo/model")


def words(text: str) -> int:
    return len(text.split())


def unit_with_calls(calls_of_rows: list[list[tuple[str, str]]], dates: list[dt.date]) -> pa.Table:
    rows = [
        {
            "unit_id": "u", "trace": "{}", "doc_id": str(number), "part": 0, "text": "x",
            "url": None, "date": date, "language": None, "dropped": None, "input_ids": [1],
            "offers": [], "positions": [],
            "calls": [{"tool": tool, "input": text} for tool, text in calls],
        }
        for number, (calls, date) in enumerate(zip(calls_of_rows, dates, strict=True))
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def test_a_tool_is_asked_once_for_equal_calls_of_one_date() -> None:
    day, other = dt.date(2021, 3, 9), dt.date(2021, 3, 10)
    unit = unit_with_calls(
        [[("Calendar", ""), ("Calculator", "1 + 1")], [("Calendar", "")], [("Calendar", "")]],
        [day, day, other],
    )
    assert distinct_requests(unit) == {
        "Calendar": [ToolRequest(input="", date=day), ToolRequest(input="", date=other)],
        "Calculator": [ToolRequest(input="1 + 1", date=day)],
    }


def test_a_short_result_is_left_alone() -> None:
    assert cap_result("One two. Three four.", words, 4) == "One two. Three four."


def test_a_long_result_ends_at_the_last_sentence_that_fits() -> None:
    assert cap_result("One two. Three four. Five six.", words, 5) == "One two. Three four."


def test_a_result_without_a_fitting_sentence_ends_at_a_word() -> None:
    assert cap_result("one two three four five.", words, 3) == "one two three"


def test_a_result_of_one_long_word_is_cut_inside_it() -> None:
    assert cap_result("abcdefghij", len, 4) == "abcd"


def test_a_result_of_which_nothing_fits_is_empty() -> None:
    assert cap_result("abc", lambda text: 9, 4) == ""


@pytest.fixture(scope="module")
def codec() -> TokenCodec:
    return TokenCodec.load(str(DEMO_MODEL))


def test_a_result_that_is_inserted_cannot_end_its_call(codec: TokenCodec) -> None:
    answer = insertable(ToolResult.ok("a [b]\n-> c "), codec, 100)
    assert answer == ToolResult.ok("a (b) - c")


def test_a_result_that_is_inserted_has_so_many_tokens_at_most(codec: TokenCodec) -> None:
    words_of_it = "the " * 40
    answer = insertable(ToolResult.ok(words_of_it), codec, 7)
    assert answer.result is not None and words_of_it.startswith(answer.result)
    assert 1 <= codec.count(answer.result) <= 7


def test_a_result_of_which_nothing_is_left_is_empty(codec: TokenCodec) -> None:
    assert insertable(ToolResult.ok(" \n\0"), codec, 100) == ToolResult.empty("the result is blank")


def test_what_is_no_result_stays_but_for_half_a_character_of_its_error(codec: TokenCodec) -> None:
    answer = insertable(ToolResult.failed("no \ud83d here", retryable=True), codec, 100)
    assert answer == ToolResult(status=ToolStatus.FAILED, error="no ? here", retryable=True)
