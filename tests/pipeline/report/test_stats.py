"""Counts over two units written by hand (see scored_units.two_units)."""

import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.build.candidates import candidates_of, read_unit
from pipeline.report import Stats, collect_stats, survey
from pipeline.report.stats import STATS_COLUMNS
from pipeline.report.tool_stats import ErrorText, ToolCounter
from pipeline.rundir import DoneMark
from tests.pipeline.build.scored_units import (
    TEXT_A,
    candidate,
    row,
    run_config,
    two_units,
    write_unit,
)


def done_mark(unit_id: str, **changes: object) -> DoneMark:
    values: dict[str, object] = {
        "unit_id": unit_id, "documents": 2, "rows": 2, "dropped": {}, "bytes": 1, "blake2b": "",
        "seconds": {"read": 0.5, "sample": 1.5, "score": 2.5},
        "tokens": {
            "position_tokens": 100, "loss_tokens": 300, "padding_tokens": 50, "head_rows": 40,
        },
        "finished_at": 0.0,
    }  # fmt: skip
    return DoneMark.model_validate(values | changes)


@pytest.fixture
def stats(tmp_path: Path) -> Stats:
    marks = [done_mark("0000000"), done_mark("0000001")]
    return collect_stats(two_units(tmp_path), marks, run_config())


def test_rows_are_documents_kept_or_dropped_by_reason(stats: Stats) -> None:
    assert (stats.units, stats.documents, stats.rows) == (2, 4, 4)
    assert stats.dropped == {"empty_text": 1}


def test_offers_are_counted_by_heuristic(stats: Stats) -> None:
    calculator = stats.tools["Calculator"]
    assert calculator.documents == 3
    assert calculator.offers == {"cue_word": 1, "sampled": 1, "three_numbers": 1}
    assert stats.tools["Calendar"].offers == {"url_date": 1}


def test_positions_and_samples_add_up(stats: Stats) -> None:
    calculator = stats.tools["Calculator"]
    # Positions 9, 18, 19 of a, 17 of b, 3 and 8 of c; the one at 19 was not sampled.
    assert (calculator.positions, calculator.positions_pruned) == (6, 1)
    assert (calculator.drawn, calculator.not_ended, calculator.not_parsed) == (50, 2, 1)
    assert stats.tools["Calendar"].drawn == 10


def test_calls_are_counted_by_how_far_they_came(stats: Stats) -> None:
    calculator = stats.tools["Calculator"]
    assert (calculator.candidates, calculator.executed, calculator.scored) == (8, 7, 5)
    assert calculator.status == {"invalid": 1, "ok": 6}


def test_kept_calls_and_their_documents_are_counted_at_every_threshold(stats: Stats) -> None:
    calculator, calendar = stats.tools["Calculator"], stats.tools["Calendar"]
    # Gains 1.5, 1.0 and 0.25 in a, 2.0 in b.
    assert calculator.kept_at == {"0.5": 3, "1.0": 3, "2.0": 1}
    assert calculator.examples_at == {"0.5": 2, "1.0": 2, "2.0": 1}
    assert (calculator.kept, calculator.examples) == (3, 2)
    # Gains 2.0 and 1.25 in a; its own tau_f is 1.0.
    assert calendar.kept_at == {"0.5": 2, "1.0": 2, "2.0": 1}
    assert (calendar.kept, calendar.examples) == (2, 1)


def test_a_threshold_of_its_own_is_counted_too(tmp_path: Path) -> None:
    config = run_config(tools={"Calculator": {"tau_f": 1.25}, "Calendar": None})
    calculator = collect_stats(two_units(tmp_path), [], config).tools["Calculator"]
    assert (calculator.tau_f, calculator.kept) == (1.25, 2)


def test_gains_fall_in_bins_of_a_quarter_nat_and_bounds_are_apart(stats: Stats) -> None:
    histogram = stats.tools["Calculator"].gain_histogram
    filled = {
        edge: count for edge, count in zip(histogram.edges, histogram.counts, strict=False) if count
    }
    assert filled == {0.25: 1, 1.0: 1, 1.5: 1, 2.0: 1}
    # The call with loss_empty 3.0 and loss_plus 2.9 and no loss_call.
    bounds = dict(zip(histogram.edges, histogram.bound_counts, strict=False))
    assert {edge: count for edge, count in bounds.items() if count} == {0.0: 1}


def test_gains_off_the_scale_fall_in_the_outer_bins(tmp_path: Path) -> None:
    calls = [candidate("Calculator", 3, f"{plus}", "1", plus=plus) for plus in (-90.0, 90.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("a", TEXT_A, calls)])
    counts = collect_stats([unit], [], run_config()).tools["Calculator"].gain_histogram.counts
    assert (counts[0], counts[-1], sum(counts)) == (1, 1, 2)


def test_times_and_tokens_are_sums_over_units(stats: Stats) -> None:
    assert stats.seconds == {"read": 1.0, "sample": 3.0, "score": 5.0}
    assert stats.tokens == {
        "position_tokens": 200,
        "loss_tokens": 600,
        "padding_tokens": 100,
        "head_rows": 80,
    }
    # 800 tokens in the 8 seconds of sample and score; rows of the LM head are no tokens.
    assert stats.tokens_per_second == 100.0


def test_marks_are_taken_one_at_a_time_before_files_are_named(tmp_path: Path) -> None:
    files, given = two_units(tmp_path), list[weakref.ref[DoneMark]]()

    def marks() -> Iterator[DoneMark]:
        for n in range(len(files)):
            assert sum(ref() is not None for ref in given) <= 1
            mark = done_mark(f"{n:07}")
            given.append(weakref.ref(mark))
            yield mark
            del mark

    def named() -> Iterator[Path]:
        yield from files[: len(given)]

    config = run_config()
    expected = collect_stats(files, [done_mark("0000000"), done_mark("0000001")], config)
    assert collect_stats(named(), marks(), config) == expected
    given.clear()
    assert survey(named(), marks(), config).stats == expected


@pytest.mark.parametrize(
    "engines",
    [
        {"engine": {"name": "vllm", "num_gpus": 1}},
        {"engines": {"loss": {"name": "torch", "num_threads": 2}}},
    ],
    ids=["units at once", "pools"],
)
def test_where_units_overlap_or_wait_nobody_knows_what_a_replica_does(
    tmp_path: Path, engines: dict[str, Any]
) -> None:
    marks = [done_mark("0000000"), done_mark("0000001")]
    stats = collect_stats(two_units(tmp_path), marks, run_config(**engines))
    assert stats.tokens_per_second is None
    assert stats.tokens["loss_tokens"] == 600


def test_a_run_without_units_has_zeros(tmp_path: Path) -> None:
    stats = collect_stats([], [], run_config())
    assert (stats.documents, stats.tokens_per_second) == (0, None)
    assert stats.tools["Calculator"].kept_at == {"0.5": 0, "1.0": 0, "2.0": 0}


def test_what_tools_say_is_counted_without_what_is_of_one_call(tmp_path: Path) -> None:
    said = ["no 'a' here", "no 'b c' here", 'no "d"  here', "too long", None]
    calls = [
        candidate("Calculator", 1, f"{n}", status="invalid") | {"error": error}
        for n, error in enumerate(said)
    ]
    file = write_unit(tmp_path / "0.parquet", [row("a", TEXT_A, calls)])
    errors = collect_stats([file], [], run_config()).tools["Calculator"].errors
    assert errors == [
        ErrorText("invalid", "no '...' here", 3), ErrorText("invalid", "too long", 1),
    ]  # fmt: skip


def test_a_tool_that_never_says_the_same_fills_no_memory(tmp_path: Path) -> None:
    config = run_config()
    counter = ToolCounter("Calculator", config.tools["Calculator"], config)
    for unit in range(2):
        calls = [
            candidate("Calculator", 1, status="failed")
            | {"error": f"line {unit}-{n}" if n % 3 else "often"}
            for n in range(4_500)
        ]
        table = read_unit(
            write_unit(tmp_path / f"{unit}.parquet", [row("a", TEXT_A, calls)]), STATS_COLUMNS
        )
        counter.add(table, candidates_of(table))
        assert len(counter._errors) <= 2_000
    assert counter.stats().errors[0] == ErrorText("failed", "often", 3_000)
