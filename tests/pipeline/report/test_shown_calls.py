"""Which calls are shown, in which order, with what around them."""

from pathlib import Path

import pytest

from pipeline.report.calls import CallFilter, ShownCall, best_calls
from tests.pipeline.build.scored_units import (
    TEXT_A,
    candidate,
    extreme_calls,
    row,
    two_units,
    write_unit,
)

TAU_F = {"Calculator": 0.5, "Calendar": 1.0}


def gains(calls: list[ShownCall]) -> list[str]:
    return [shown.gain_text for shown in calls]


def test_highest_and_lowest_gains_come_over_all_units(tmp_path: Path) -> None:
    highest, lowest = extreme_calls(two_units(tmp_path), TAU_F, limit=3)
    assert [(shown.doc_id, shown.gain_text) for shown in highest] == [
        ("a", "+2.00"),
        ("b", "+2.00"),
        ("a", "+1.50"),
    ]
    assert gains(lowest) == ["< +0.10", "+0.25", "+1.00"]


@pytest.mark.parametrize("limit", [1, 2, 4, 7, 100])
def test_a_limit_cuts_the_full_order(tmp_path: Path, limit: int) -> None:
    files = two_units(tmp_path)
    highest, _ = extreme_calls(files, TAU_F, limit=limit, where=CallFilter())
    everything, _ = extreme_calls(files, TAU_F, limit=1000, where=CallFilter())
    assert len(everything) == 10
    assert highest == everything[:limit]


def test_calls_without_a_score_come_last_and_say_why(tmp_path: Path) -> None:
    calls, _ = extreme_calls(two_units(tmp_path), TAU_F, limit=100, where=CallFilter())
    assert gains(calls)[-4:] == ["< +0.10", "invalid", "not scored", "not scored"]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (CallFilter(tool="Calendar"), ["+2.00", "+1.25"]),
        (CallFilter(kept=True, tool="Calculator"), ["+2.00", "+1.50", "+1.00"]),
        (CallFilter(kept=False, scored=True), ["+0.25", "< +0.10"]),
        (CallFilter(doc_id="b"), ["+2.00"]),
        (CallFilter(doc_id="nowhere"), []),
    ],
)
def test_a_filter_selects(tmp_path: Path, where: CallFilter, found: list[str]) -> None:
    calls, _ = extreme_calls(two_units(tmp_path), TAU_F, limit=10, where=where)
    assert gains(calls) == found


def test_a_document_stands_for_its_parts(tmp_path: Path) -> None:
    calls = [candidate("Calendar", 3, "", "Monday", plus=1.0)]
    rows = [row(doc_id, TEXT_A, calls) for doc_id in ("a#1", "a#2", "ab", "b#a")]
    unit = write_unit(tmp_path / "0.parquet", rows)
    found, _ = extreme_calls([unit], TAU_F, limit=10, where=CallFilter(doc_id="a"))
    assert [shown.doc_id for shown in found] == ["a#1", "a#2"]


def test_a_call_is_shown_between_the_text_around_it(tmp_path: Path) -> None:
    _, [lowest, *_] = extreme_calls(
        two_units(tmp_path), TAU_F, limit=1, where=CallFilter(tool="Calculator", doc_id="b")
    )
    assert (lowest.before, str(lowest.call), lowest.result, lowest.after) == (
        "Café: 6 ÷ 3 = ", "Calculator(6 / 3)", "2", "2",
    )  # fmt: skip
    assert (lowest.loss_minus, lowest.loss_plus, lowest.kept) == (3.0, 1.0, True)


def test_context_is_cut_between_characters(tmp_path: Path) -> None:
    text = "é" * 300  # two bytes each
    calls = [candidate("Calendar", 302, "", "Monday", plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("a", "x" + text, calls)])
    [shown], _ = extreme_calls([unit], TAU_F, limit=1)
    # 240 bytes are 120 characters.
    assert (shown.before, shown.after) == ("é" * 120, "é" * 120)


def test_the_best_calls_of_each_tool_stand_in_places_of_their_own(tmp_path: Path) -> None:
    calls = [
        candidate("Calculator", 4, "1 + 1", "2", plus=1.0),
        candidate("Calculator", 4, "2 * 1", "2", plus=1.5),
        candidate("Calculator", 6, "3 + 4", "7", plus=2.0),
        candidate("Calendar", 4, "", "Today", plus=2.75),
    ]
    unit = write_unit(tmp_path / "u.parquet", [row("a", TEXT_A, calls=calls)])
    best = best_calls([unit], TAU_F, per_tool=2)
    assert [(shown.call.tool, shown.gain) for shown in best] == [
        ("Calculator", 2.0), ("Calculator", 1.0), ("Calendar", 0.25),
    ]  # fmt: skip
