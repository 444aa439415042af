"""Rounds compared: counts by hand, what two rounds share, and what the report says of it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.build.candidates import candidates_of, read_units
from pipeline.report.rounds import Found, Overlap, Round, RoundCounter, Rounds, ToolRound
from pipeline.report.rounds_page import notes_of
from pipeline.report.survey import REPORT_COLUMNS
from pipeline.rundir import RunDir
from tests.pipeline.build.scored_units import candidate, position, row, run_config
from tests.pipeline.demo_runs import pipeline_here
from tests.pipeline.made_runs import built_run, commit, planned_run
from tools.places import Place

Rows = Sequence[Mapping[str, Any]]
NUMBERS = [("Calculator", "three_numbers")]


def made(path: Place, units: Sequence[Rows], *, planned: int = 0, **config: Any) -> RunDir:
    """A run of one document a unit with these rows."""
    run = planned_run(
        path, max(len(units), planned), unit_documents=1,
        config=run_config(run=str(path), **config),
    )  # fmt: skip
    for number, rows in enumerate(units):
        commit(run, number, rows)
    return run


def first_round() -> list[Rows]:
    """Three kept calls of Calculator (gains 2.0, 1.0, 0.5), one below its tau_f, one unanswered."""
    x = row(
        "x", "12 + 30 is 42, and 6 more is 48.",
        [
            candidate("Calculator", 11, "12 + 30", "42", plus=1.0),
            candidate("Calculator", 11, "30 + 12", "42", plus=2.0),
            candidate("Calculator", 27, "42 + 6", "48", plus=2.5),
            candidate("Calculator", 27, "6 + 6", "12", plus=2.75),
            candidate("Calculator", 27, "6 /", status="invalid"),
        ],
        offers=NUMBERS,
        positions=[
            position("Calculator", 11, not_ended=1, not_parsed=2),
            position("Calculator", 27) | {"p_api": 0.75},
        ],
    )  # fmt: skip
    return [[x], [row("y", "None here, 1 2 3.", offers=NUMBERS)]]


def second_round() -> list[Rows]:
    """One of the kept calls again, in 12 + 30 another gain; one that is new, elsewhere."""
    x = row(
        "x", "12 + 30 is 42, and 6 more is 48.",
        [
            candidate("Calculator", 11, "12 + 30", "42", plus=0.5),
            candidate("Calculator", 27, "42 + 6", "48", plus=2.9),
        ],
        offers=NUMBERS,
        positions=[position("Calculator", 11), position("Calculator", 27)],
    )  # fmt: skip
    y = row(
        "y", "None here, 1 2 3.", [candidate("Calculator", 12, "12 + 30", "42", plus=1.5)],
        offers=NUMBERS, positions=[position("Calculator", 12)],
    )  # fmt: skip
    return [[x], [y]]


def counted(run: RunDir, before: Found | None = None, **config: Any) -> tuple[Round, Found]:
    """A round by itself, under thresholds of `config`."""
    counter = RoundCounter(
        str(run.path), run.record(), run_config(**config),
        planned=len(run.units()), before=before,
    )  # fmt: skip
    for mark in run.done_marks():
        counter.add_mark(mark)
    for _, unit in read_units(run.finished_unit_files(), REPORT_COLUMNS):
        counter.add(unit, candidates_of(unit))
    return counter.result()


def test_a_round_is_counted_as_by_hand(tmp_path: Path) -> None:
    result, found = counted(made(tmp_path / "one", first_round()))
    assert result.tools["Calculator"] == ToolRound(
        documents=2, positions=2, mean_p_api=0.5, calls_share=0.7, candidates=5,
        answered=4, scored=4, tau_f=0.5, kept=3, kept_at={"0.5": 3, "1.0": 2, "2.0": 1},
        kept_share=0.75, mean_gain=round(3.5 / 3, 4), median_gain=1.0, calls=None,
    )  # fmt: skip
    nothing = result.tools["Calendar"]
    assert (nothing.positions, nothing.mean_p_api, nothing.kept_share) == (0, None, None)
    assert (nothing.mean_gain, nothing.median_gain) == (None, None)
    assert (result.documents, result.units, result.units_planned, result.texts) == (2, 2, 2, None)
    assert result.fingerprint == "f" * 8 and result.gains_from == 0.5
    assert len(found.texts) == 2 and len(found.kept_by("Calculator")) == 3
    assert len(found.kept_by("QA")) == 0


def test_calls_are_the_same_by_document_place_and_input_and_not_by_gain(tmp_path: Path) -> None:
    _, before = counted(made(tmp_path / "one", first_round()))
    result, _ = counted(made(tmp_path / "two", second_round()), before)
    assert result.tools["Calculator"].kept == 2
    assert result.tools["Calculator"].calls == Overlap(same=1, new=1, lost=2)
    assert result.tools["Calendar"].calls == Overlap(same=0, new=0, lost=0)
    assert result.texts == Overlap(same=2, new=0, lost=0)


def test_thresholds_are_those_of_the_run_that_is_reported(tmp_path: Path) -> None:
    run = made(tmp_path / "one", first_round())
    result, found = counted(run, tools={"Calculator": {"tau_f": 1.5}})
    assert result.tools["Calculator"].kept == 1
    assert len(found.kept_by("Calculator")) == 1


def test_texts_that_one_round_alone_has_are_counted(tmp_path: Path) -> None:
    _, before = counted(made(tmp_path / "one", first_round()))
    other = [[row("x", "Another text.")], *first_round()[1:], [row("z", "A third.")]]
    result, _ = counted(made(tmp_path / "two", other), before)
    assert result.texts == Overlap(same=1, new=2, lost=1)


def test_a_round_holds_eight_bytes_for_a_text_and_for_a_kept_call(tmp_path: Path) -> None:
    _, found = counted(made(tmp_path / "one", first_round()))
    assert found.texts.dtype == np.int64 and found.kept_by("Calculator").dtype == np.int64


def report(run: RunDir, *previous: Place, check: bool = True) -> Any:
    """`python -m pipeline report RUN --previous ...`."""
    options = [word for place in previous for word in ("--previous", place)]
    return pipeline_here("report", run.path, *options, check=check)


def test_the_report_compares_three_rounds(tmp_path: Path) -> None:
    runs = [
        made(tmp_path / name, units, model={"path": f"models/{name}"})
        for name, units in (("one", first_round()), ("two", second_round()))
    ]
    three = made(tmp_path / "three", first_round()[:1], planned=2, model={"path": "models/three"})
    done = report(three, runs[1].path, runs[0].path)
    table = done.stdout.partition("Rounds")[2]
    (rows,) = re.findall(r"Calculator(.*)Calendar", table, re.DOTALL)
    assert [line.split() for line in rows.splitlines()[:3]] == [
        ["1", "2", "70%", "5", "3", "1.17"],
        ["2", "3", "100%", "3", "2", "2.00", "1", "1", "2"],
        ["3", "2", "70%", "5", "3", "1.17", "1", "2", "1"],
    ]
    assert f"round 2: {runs[1].path}, model models/two\n" in done.stdout
    saved = json.loads((three.path / "report" / "stats.json").read_text())
    assert [r["model"] for r in saved["rounds"]] == ["models/one", "models/two", "models/three"]
    assert [r["tools"]["Calculator"]["calls"] for r in saved["rounds"]] == [
        None, {"same": 1, "new": 1, "lost": 2}, {"same": 1, "new": 2, "lost": 1},
    ]  # fmt: skip
    page = (three.path / "report" / "index.html").read_text()
    assert "This run is round 3" in page and '<a href="#rounds">' in page
    assert "Rounds 2 and 3 did not annotate the same texts: 1 are in both" in page
    assert "Round 3 is not finished: 1 of 2 units." in page
    (new,) = re.findall(r"<h3>New in round 3</h3>(.*?)</div>", page, re.DOTALL)
    assert re.findall(r"gain ([+.\d]+)", new) == ["+1.00", "+0.50"]
    assert "30 + 12" in new and "12 + 30</mark>" not in new


def test_without_previous_rounds_nothing_is_said_of_them(tmp_path: Path) -> None:
    run = built_run(tmp_path / "run")
    done = report(run)
    assert "Rounds" not in done.stdout
    assert "rounds" not in json.loads((run.path / "report" / "stats.json").read_text())
    assert 'id="rounds"' not in (run.path / "report" / "index.html").read_text()


@pytest.mark.parametrize(
    ("previous", "says"),
    [
        ("nowhere", "nowhere: no run here (no readable run.json); name a directory that"),
        ("empty", "empty: no unit of it is finished: there is no round to compare with"),
        ("run", "run: is named twice; a round is compared with others"),
    ],
)
def test_what_is_no_previous_round_is_one_line(tmp_path: Path, previous: str, says: str) -> None:
    planned_run(tmp_path / "empty", 2)
    refused = report(built_run(tmp_path / "run"), tmp_path / previous, check=False)
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr.startswith(f"error: {tmp_path}/{says}")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "run" / "report").exists()


def test_a_round_with_higher_thresholds_is_told_of(tmp_path: Path) -> None:
    tools = {"Calculator": {"tau_f": 2.0}}
    one = made(tmp_path / "one", first_round(), tools=tools, report_tau_f=[2.0])
    two = made(tmp_path / "two", second_round())
    report(two, one.path)
    page = (two.path / "report" / "index.html").read_text()
    assert "Round 1 did not compute gains that are below 2:" in page
    assert page.count("did not compute gains") == 1


def test_a_tau_f_below_what_an_earlier_round_computed_is_told_of(tmp_path: Path) -> None:
    one, _ = counted(made(tmp_path / "one", first_round()))  # gains from 0.5
    run = made(tmp_path / "two", second_round(), tools={"Calculator": {"tau_f": 0.25}})
    two, _ = counted(run, tools={"Calculator": {"tau_f": 0.25}})
    assert set(two.tools["Calculator"].kept_at) == {"0.5", "1.0", "2.0"}
    (note,) = notes_of(Rounds(rounds=[one, two], new_calls=[]))
    assert note.startswith("Round 1 did not compute gains that are below 0.5:")
    assert list(notes_of(Rounds(rounds=[one, one], new_calls=[]))) == []


def test_rounds_are_json_as_they_are_counted(tmp_path: Path) -> None:
    result, _ = counted(made(tmp_path / "one", first_round()))
    assert json.loads(json.dumps(result.as_json())) == asdict(result)
