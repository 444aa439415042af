"""Every way a call can go, with a model that knows by heart how it does."""

import datetime as dt
from typing import Any

import pytest

from tests.training.generate.reciting import CODEC, OPEN_ID, Reciting, tokens
from tests.training.generate.written import (
    ANSWERED,
    CALL,
    PROMPT,
    SUM,
    Answers,
    Pieces,
    write,
    write_with,
)
from tools.base import ToolResult, ToolStatus
from tools.calls import pieces_with_result
from training.generate.brackets import WrittenCall
from training.generate.events import CallStarted
from training.generate.writer import TAKEN_BACK_PER_CALL


def test_a_call_is_answered_where_it_stands_and_the_text_goes_on() -> None:
    written = write([" of", *ANSWERED, " is", " 3."])
    generation = written.generation
    assert generation.text == " of is 3."
    assert generation.annotated == " of [Calculator(1 + 2) -> 3] is 3."
    assert generation.finish_reason == "stop"
    (ended,) = generation.calls
    assert (ended.status, ended.result, ended.error) == (ToolStatus.OK, "3", None)
    assert ended.started == CallStarted(number=0, call=SUM, offset=3, triggered=False)
    kinds = [type(event).__name__ for event in written.events]
    calls_at = kinds.index("CallStarted")
    assert set(kinds[:calls_at]) == {"TextWritten"}
    assert kinds[calls_at + 1] == "CallEnded"
    assert kinds[-1] == "Generation"


@pytest.mark.parametrize(
    "answer", [ToolResult.ok("the U.S."), ToolResult.ok("3"), ToolResult.empty("")]
)
def test_what_is_inserted_has_the_tokens_of_training(answer: ToolResult) -> None:
    trained = CODEC.encode_pieces(pieces_with_result(SUM, answer.result or "")).tolist()
    written = write(
        [" of", *pieces_with_result(SUM, answer.result or ""), " is"], known={str(SUM): answer}
    )
    assert written.text == " of is"
    assert written.last_ids == [*tokens([" of"]), *trained]
    cost = written.generation.cost
    assert cost.inserted_tokens == len(trained) - len(tokens(CALL))
    assert cost.decoded_tokens == len(tokens([" of", *CALL, " is"])) + 1  # the end


def test_tokens_that_stay_the_same_are_those_the_model_chose() -> None:
    one_by_one = (" [", b"Calculator(1 + 2)", " ->")  # not as its tokenizer would cut it
    written = write([" of", *one_by_one, " 3", "]", " is"])
    assert written.text == " of is"
    assert written.last_ids == tokens([" of", *one_by_one, " 3", "]"])


def test_an_arrow_in_other_tokens_becomes_that_of_training() -> None:
    cut_elsewhere = (" [", str(SUM), b" ->")
    assert tokens([b" ->"]) != tokens([" ->"])
    written = write([" of", *cut_elsewhere], [" of", *ANSWERED, " is"])
    assert written.text == " of is"
    assert written.last_ids == tokens([" of", *ANSWERED])


def test_a_trigger_begins_a_call_the_model_would_not_have_begun() -> None:
    written = write([" of", " them"], [" of", *ANSWERED, " is"])
    assert written.text == " of is"
    assert written.generation.calls[0].started.triggered
    assert not write([" of", *ANSWERED]).generation.calls[0].started.triggered


def test_only_the_k_most_likely_tokens_trigger() -> None:
    texts = [" of", " them"], [" of", " all"], [" of", *ANSWERED, " is"]
    assert write(*texts, api_top_k=2).text == " of them"
    assert write(*texts, api_top_k=3).text == " of is"
    assert {choosing.trigger_k for _, choosing in write(*texts, api_top_k=2).engine.asked} == {2}


@pytest.mark.parametrize(
    "answer",
    [
        ToolResult.invalid("no digits"),
        ToolResult.empty("no passage"),
        ToolResult.failed("it broke"),
        ToolResult(status=ToolStatus.TIMEOUT, error="no answer in 1 s"),
        ToolResult.ok(" \n"),
    ],
)
def test_a_call_without_a_result_is_closed_and_the_text_goes_on(answer: ToolResult) -> None:
    written = write([" of", *CALL, "]", " is"], known={str(SUM): answer})
    assert written.text == " of is"
    assert written.generation.annotated == " of [Calculator(1 + 2) ->] is"
    (ended,) = written.generation.calls
    assert ended.result == ""
    blank = answer.result is not None
    assert ended.status is (ToolStatus.EMPTY if blank else answer.status)
    assert ended.error == ("the result is blank" if blank else answer.error)


def test_a_result_is_cleaned_and_cut_as_in_annotation() -> None:
    long = ToolResult.ok("a] " + "the city " * 20)
    (ended,) = write([" of", *CALL], known={str(SUM): long}).generation.calls
    assert ended.result.startswith("a) the city")
    assert CODEC.count(ended.result) <= 20


def test_a_citation_is_plain_text() -> None:
    written = write([" of", " [", "1", "]", " and", *ANSWERED, " is"])
    assert written.generation.text == " of [1] and is"
    assert written.generation.annotated == " of [1] and [Calculator(1 + 2) -> 3] is"
    assert written.generation.taken_back == 0
    assert written.generation.calls[0].started.offset == len(" of [1] and")


def test_a_bracket_inside_one_that_is_no_call_may_begin_a_call() -> None:
    written = write([" of", " [", "see", *ANSWERED, " is"])
    assert written.generation.annotated == " of [see [Calculator(1 + 2) -> 3] is"
    assert written.text == " of [see is"


def test_a_call_whose_argument_begins_another_is_none() -> None:
    written = write([" of", " [", "QA(", *ANSWERED, " is"])
    assert written.text == " of [QA( is"
    assert [str(ended.started.call) for ended in written.generation.calls] == [str(SUM)]


def test_a_triggered_bracket_that_is_no_call_is_taken_back() -> None:
    written = write([" of", " them", " all"], [" of", " [", "1", "]"])
    assert written.text == " of them all"
    assert written.generation.taken_back == 1
    again = next(
        (ids, choosing) for ids, choosing in written.engine.asked if choosing.max_new_tokens == 1
    )
    assert again[0] == tokens([*PROMPT, " of"])
    assert again[1].banned_ids == {OPEN_ID}
    after = written.engine.asked[-1]  # and then " [" may come again
    assert after[0] == tokens([*PROMPT, " of", " them"])[: len(after[0])]
    assert after[1].banned_ids == frozenset() and after[1].trigger_k == 10


def test_at_most_so_many_brackets_are_taken_back() -> None:
    words = [" a", " b", " c", " d", " e", " f"]
    brackets = [[*words[:n], " [", "1", "]"] for n in range(len(words))]
    written = write(words, *brackets)
    assert written.text == "".join(words)
    assert written.generation.taken_back == TAKEN_BACK_PER_CALL
    assert written.engine.asked[-1][1].trigger_id is None
    assert written.engine.asked[-1][1].banned_ids == frozenset()
    assert write(words, *brackets, max_calls=2).generation.taken_back == len(words)


@pytest.mark.parametrize("params", [{"api_top_k": 0}, {"max_calls": 0}])
def test_a_disabled_text_has_no_bracket(params: dict[str, Any]) -> None:
    written = write([" of", *ANSWERED], [" of", " them"], **params)
    assert written.text == " of them"
    assert written.generation.calls == ()
    for _, choosing in written.engine.asked:
        assert choosing.banned_ids == {OPEN_ID} and choosing.trigger_id is None
    assert len(written.engine.asked) == 1


def other(number: int) -> Pieces:
    return (" [", f"Calculator({number})", " ->", " 3", "]")


def test_calls_end_after_max_calls() -> None:
    texts = [*other(1), *other(2), *other(3), " is"], [*other(1), " one"]
    assert write(*texts).text == " one"
    two = write(*texts, [*other(1), *other(2), " two"], max_calls=2)
    assert two.text == " two"
    assert two.generation.annotated == " [Calculator(1) -> 3] [Calculator(2) -> 3] two"
    assert two.engine.asked[-1][1].banned_ids == {OPEN_ID}
    assert write(*texts, max_calls=3).text == " is"


def test_a_chained_call_can_use_the_result_of_another() -> None:
    texts = [" of", *ANSWERED, " [", "Calculator(3 * 7)", " ->", " 21", "]", " is"]
    written = write(texts, known={"Calculator(3 * 7)": ToolResult.ok("21")}, max_calls=2)
    assert (
        written.generation.annotated == " of [Calculator(1 + 2) -> 3] [Calculator(3 * 7) -> 21] is"
    )
    assert [ended.started.offset for ended in written.generation.calls] == [3, 3]


@pytest.mark.parametrize("trigger", [False, True])
def test_the_same_call_again_is_taken_back(trigger: bool) -> None:
    begun = [" of", *ANSWERED]
    again, on = [*begun, *CALL], [*begun, " is", " it"]
    written = write(*([on, again] if trigger else [again, on]), max_calls=3)
    assert written.text == " of is it"
    assert written.generation.taken_back == 1
    assert len(written.answers.asked) == 1
    assert written.engine.asked[-1][0][: len(tokens([*PROMPT, *begun]))] == tokens(
        [*PROMPT, *begun]
    )


SEARCH = "WikiSearch(Po)"


def page(number: int) -> Pieces:
    return (" [", SEARCH, " ->", f" {number}", "]")


@pytest.mark.parametrize("interactive", [False, True])
def test_the_same_search_again_is_answered_with_the_next_page(interactive: bool) -> None:
    class Pages(Answers):
        async def __call__(self, written: WrittenCall, date: dt.date, page: int) -> ToolResult:
            await super().__call__(written, date, page)
            return ToolResult.ok(str(page))

    text = [*page(0), *page(1), *page(2), " is"]
    engine = Reciting([[*PROMPT, *text], [*PROMPT, *page(0), " was"]])
    written = write_with(engine, Pages(), max_calls=3, interactive_search=interactive)
    pages = [(ended.result, ended.page) for ended in written.generation.calls]
    assert pages == ([("0", 0), ("1", 1), ("2", 2)] if interactive else [("0", 0)])
    assert written.text == (" is" if interactive else " was")


@pytest.mark.parametrize(
    ("first", "pages", "text"),
    [
        # It was not shown the first passages: it asks for them again.
        (ToolResult.failed("broken"), [0, 0], " is"),
        # There are no more: the same search is a call like any other.
        (ToolResult.empty("no more passages found"), [0], " was"),
    ],
)
def test_a_page_counts_when_it_was_there(first: ToolResult, pages: list[int], text: str) -> None:
    class Late(Answers):
        async def __call__(self, written: WrittenCall, date: dt.date, page: int) -> ToolResult:
            answer = ToolResult.ok("0") if self.asked else first
            await super().__call__(written, date, page)
            return answer

    unanswered = (" [", SEARCH, " ->", "]")
    engine = Reciting([[*PROMPT, *unanswered, *page(0), " is"], [*PROMPT, *unanswered, " was"]])
    written = write_with(engine, Late(), max_calls=2, interactive_search=True)
    assert [ended.page for ended in written.generation.calls] == pages
    assert written.text == text


def test_another_tool_has_no_pages() -> None:
    texts = [*ANSWERED, *ANSWERED, " is"], [*ANSWERED, " was"]
    assert write(*texts, max_calls=3, interactive_search=True).text == " was"
