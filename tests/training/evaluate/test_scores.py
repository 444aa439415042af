from dataclasses import replace

import pytest

from tests.training.evaluate.made_results import FAILED, RIGHT, WRONG, answers
from training.benchmarks.statistics import DIFFERENCE, Performance, performance
from training.evaluate.scores import difference, score

_SIX = [RIGHT, WRONG, RIGHT, FAILED, RIGHT, WRONG]
_CALLED = [("QA", "QA"), ("QA",), (), ("Calculator", "QA"), ("Calculator",), ()]


def test_a_score_counts_what_is_right_and_what_failed() -> None:
    found = score(answers(_SIX, called=_CALLED), seed=0)
    assert (found.model, found.benchmark, found.api_top_k) == ("A", "asdiv", 10)
    assert (found.n, found.mean, found.errors) == (6, 0.5, 1)
    interval = performance([1, 0, 1, 0, 1, 0], seed=0)
    assert found.all == Performance(n=6, mean=0.5, low=interval.low, high=interval.high)
    assert found.low < 0.5 < found.high


def test_an_error_is_wrong_even_where_nothing_else_is() -> None:
    found = score(answers([RIGHT, FAILED, RIGHT, RIGHT]), seed=0)
    assert (found.mean, found.errors) == (0.75, 1)


def test_an_input_calls_a_tool_or_it_does_not() -> None:
    found = score(answers(_SIX, called=_CALLED), seed=0)
    assert found.share_with_call == pytest.approx(4 / 6)
    assert found.tools == {"Calculator": pytest.approx(2 / 6), "QA": pytest.approx(3 / 6)}


def test_performance_is_told_apart_by_whether_there_is_a_call() -> None:
    found = score(answers(_SIX, called=_CALLED), seed=0)
    assert found.with_call and found.without_call
    assert (found.with_call.n, found.with_call.mean) == (4, 0.5)
    assert (found.without_call.n, found.without_call.mean) == (2, 0.5)
    disabled = score(answers(_SIX, api_top_k=0), seed=0)
    assert disabled.with_call is None and disabled.without_call == disabled.all
    assert (disabled.share_with_call, disabled.tools) == (0, {})


def test_how_calls_ended_is_counted_by_tool() -> None:
    ended = [("ok", "timeout"), ("ok",), (), ("invalid", "failed"), ("ok",), ()]
    found = score(answers(_SIX, called=_CALLED, statuses=ended), seed=0)
    assert found.calls == {
        "Calculator": {"invalid": 1, "ok": 1},
        "QA": {"failed": 1, "ok": 2, "timeout": 1},
    }
    with pytest.raises(ValueError, match="shorter"):
        score(answers(_SIX, called=_CALLED, statuses=[()] * 6), seed=0)


def test_two_models_that_agree_may_still_differ() -> None:
    a, b = (answers([RIGHT] * 10, model=model) for model in "AB")
    found = difference(a, b, seed=0)
    assert (found.low, found.high) == pytest.approx((-0.2589, 0.2589), abs=1e-4)


def test_what_a_benchmark_leaves_out_is_told() -> None:
    assert score(answers([RIGHT], skipped={"no number": 2}), seed=0).skipped == {"no number": 2}


def test_groups_keep_their_order_and_have_their_own_numbers() -> None:
    found = score(answers(_SIX, groups="babbaa"), seed=0)
    assert list(found.groups) == ["b", "a"]
    assert [part.n for part in found.groups.values()] == [3, 3]
    assert [part.mean for part in found.groups.values()] == pytest.approx([2 / 3, 1 / 3])


def test_the_seed_alone_decides_a_score() -> None:
    asked = answers([RIGHT, WRONG, WRONG] * 30)
    assert score(asked, seed=1) == score(asked, seed=1) != score(asked, seed=2)


def test_no_answers_have_no_score() -> None:
    with pytest.raises(ValueError, match="no values"):
        score(answers([]), seed=0)


def test_a_difference_is_that_of_the_same_examples_in_whatever_order() -> None:
    a = answers([RIGHT, RIGHT, WRONG, RIGHT, FAILED])
    b = answers([WRONG, RIGHT, WRONG, WRONG, RIGHT], model="B")
    assert difference(a, b, seed=0) == performance([1, 0, 0, 1, -1], seed=0, bounds=DIFFERENCE)
    turned = replace(b, answers=b.answers[::-1])
    assert difference(a, turned, seed=0) == difference(a, b, seed=0)
    assert difference(b, a, seed=0).mean == pytest.approx(-1 / 5)


def test_a_difference_is_surer_than_two_scores_side_by_side() -> None:
    of_a = answers([RIGHT] * 56 + [WRONG] * 44)
    of_b = answers([RIGHT] * 50 + [WRONG] * 50, model="B")
    assert score(of_a, seed=0).low < score(of_b, seed=0).mean
    found = difference(of_a, of_b, seed=0)
    assert found.mean == 0.06 and 0.01 < found.low < 0.06 < found.high < 0.12


def test_other_examples_cannot_be_compared() -> None:
    a = answers([RIGHT, WRONG])
    with pytest.raises(ValueError, match=r"got 2 and 3 examples, of which 2 are the same"):
        difference(a, answers([RIGHT, WRONG, WRONG], model="B"), seed=0)
    renamed = replace(a.answers[1], example=replace(a.answers[1].example, prompt="It was"))
    with pytest.raises(ValueError, match=r"got 2 and 2 examples, of which 1 are the same"):
        difference(a, replace(a, answers=(a.answers[0], renamed)), seed=0)
    by_words = replace(a, benchmark=replace(a.benchmark, criterion="word_within_5"))
    with pytest.raises(ValueError, match="judged alike"):
        difference(a, by_words, seed=0)
