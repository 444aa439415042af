import datetime as dt
import json
from pathlib import Path

import pytest

from tools.base import ToolStatus
from tools.calls import ApiCall
from training.generate.events import CallEnded, CallStarted, Generation, GenerationCost
from training.generate.measure import Score, score, wilson, write_scores
from training.world.answers import Question

SUM = Question(
    prompt="27 and 15 make",
    today=dt.date(2009, 8, 3),
    calls=frozenset({ApiCall("Calculator", "27 + 15")}),
    answers=("42",),
)
AUTHOR = Question(
    prompt="The pupil asked who wrote Long Road. It was",
    today=dt.date(2009, 8, 3),
    calls=frozenset(
        {ApiCall("QA", f'"{asked} Long Road?"') for asked in ("Who wrote", "Whose is")}
    ),
    answers=("Ala Jorvane",),
)


def text(said: str, *calls: ApiCall) -> Generation:
    ended = [
        CallEnded(
            started=CallStarted(number=number, call=call, offset=0, triggered=True),
            status=ToolStatus.OK,
            result="42",
            error=None,
            seconds=0.1,
        )
        for number, call in enumerate(calls)
    ]
    return Generation(
        text=said,
        annotated=said,
        calls=tuple(ended),
        finish_reason="stop",
        taken_back=0,
        cost=GenerationCost(prompt_tokens=5, decoded_tokens=5, inserted_tokens=2),
    )


def test_each_question_counts_for_its_tool_and_for_all() -> None:
    right, wrong = ApiCall("Calculator", "27 + 15"), ApiCall("Calculator", "27 * 15")
    other, wording = ApiCall("QA", '"Who was taught?"'), ApiCall("QA", '"Whose is Long Road?"')
    counted = score(
        [SUM, SUM, SUM, AUTHOR, AUTHOR],
        [
            text(" 42.", right),
            text(" 405.", wrong, right),  # the first call counts
            text(" 42."),
            text(" Ala Jorvane.", wording),
            text(" 42.", other),
        ],
    )
    assert counted == {
        "Calculator": Score(questions=3, with_call=2, right_tool=2, right_call=1, right_answer=2),
        "QA": Score(questions=2, with_call=2, right_tool=2, right_call=1, right_answer=1),
        "all": Score(questions=5, with_call=4, right_tool=4, right_call=2, right_answer=3),
    }


def test_a_call_of_another_tool_is_a_call_but_not_a_right_one() -> None:
    counted = score([SUM], [text(" 42.", ApiCall("QA", "27 + 15"))])
    one = Score(questions=1, with_call=1, right_tool=0, right_call=0, right_answer=1)
    assert counted["Calculator"] == one


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [(0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (5, 10, 0.237, 0.763), (81, 263, 0.255, 0.366)],
)
def test_the_interval_is_that_of_wilson(count: int, total: int, low: float, high: float) -> None:
    """The last from Newcombe, Statistics in Medicine 17 (1998), table I."""
    assert wilson(count, total) == pytest.approx((low, high), abs=6e-4)


def test_the_counts_are_written_with_their_intervals(tmp_path: Path) -> None:
    scores = {"with tools": score([SUM], [text(" 42.", ApiCall("Calculator", "27 + 15"))])}
    write_scores(tmp_path / "scores.json", scores, {"documents": 1})
    written = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert written["documents"] == 1
    low, high = written["scores"]["with tools"]["all"].pop("right_answer_interval")
    assert (round(low, 3), high) == (0.207, 1.0)
    assert written["scores"]["with tools"]["all"] == {
        "questions": 1,
        "with_call": 1,
        "right_tool": 1,
        "right_call": 1,
        "right_answer": 1,
    }
