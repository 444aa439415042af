"""What is counted of a unit and of a run for those who watch it."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.attempts import UnitsInFlight
from pipeline.schemas import SCORED
from pipeline.time_left import TimeLeft
from pipeline.unit_counts import GAIN_EDGES, count_rows


def call(tool: str, status: str | None, gain: float | None, **losses: float) -> dict[str, Any]:
    return {"tool": tool, "position": 3, "status": status, "gain": gain} | losses


def row(doc_id: str, calls: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    return {
        "doc_id": doc_id, "part": 0, "text": "x", "input_ids": [1], "offers": [], "calls": calls,
        "positions": [],
    } | values  # fmt: skip


def test_counts_of_a_unit_are_those_of_its_rows() -> None:
    rows = [
        row(
            "a",
            [
                call("Calculator", "ok", 1.0),
                call("Calculator", "ok", None, loss_empty=0.5, loss_plus=2.0),  # at most -1.5
                call("Calculator", "timeout", None),
                call("Calculator", None, None),  # not executed
                call("Calendar", "ok", 0.75),
            ],
            positions=[{"tool": tool} for tool in ("Calculator", "Calculator", "Calendar")],
        ),
        row("b", [call("Calculator", "ok", 9.0)]),
        row("c", [], dropped="too_short"),
        row("d", [], positions=[{"tool": "QA"}]),
    ]
    table = pa.Table.from_pylist(rows, schema=SCORED)
    counts = count_rows(table)
    assert counts.outcomes == {"done": 3, "too_short": 1}
    assert counts.dropped == {"too_short": 1}
    assert counts.failed == [True, False, False, False]
    assert list(counts.tools) == ["Calculator", "Calendar", "QA"]
    calculator, calendar, qa = counts.tools.values()
    assert (calculator.positions, calculator.candidates) == (2, 5)
    assert calculator.executed == {"ok": 3, "timeout": 1}
    assert (calculator.kept(1.0), calendar.kept(1.0)) == (2, 0)
    not_above = dict(zip((*GAIN_EDGES, "all"), calculator.not_above(), strict=True))
    assert not_above[-2.0] == 0 and not_above[-1.0] == not_above[0.75] == 1
    assert not_above[1.0] == not_above[6.0] == 2 and not_above["all"] == 3
    assert (qa.positions, qa.candidates, qa.executed, set(qa.not_above())) == (1, 0, {}, {0})


def test_counts_do_not_depend_on_how_rows_lie_in_memory() -> None:
    rows = [row(str(n), [call("Calendar", "ok", float(n))]) for n in range(6)]
    whole = pa.Table.from_pylist(rows, schema=SCORED)
    pieces = pa.concat_tables([whole.slice(0, 2), whole.slice(2, 1), whole.slice(3)])
    assert count_rows(pieces) == count_rows(whole)
    assert count_rows(whole.slice(2, 3)).tools["Calendar"].kept(3.0) == 2


def test_time_left_is_told_from_the_first_commit_at_the_rate_since_work_began() -> None:
    left = TimeLeft(100, begun_at=45.0)
    assert left.seconds(49.0) is None
    left.committed(10, now=50.0)  # 2 documents a second
    assert left.seconds(50.0) == pytest.approx(45.0)
    left.committed(20, now=75.0)  # 1 a second over all
    assert left.seconds(75.0) == pytest.approx(70.0)
    left.committed(70, now=80.0)
    assert (left.documents, left.seconds(90.0)) == (0, 0.0)


def test_time_left_grows_once_nothing_is_committed_for_longer_than_before() -> None:
    left = TimeLeft(100, begun_at=0.0)
    for now in (10.0, 20.0, 50.0, 60.0):  # one every 15 s, at most 30 s apart
        left.committed(1, now)
    told = [left.seconds(now) for now in (60.0, 74.0, 90.0, 120.0, 3660.0)]
    assert told == pytest.approx([96 * 15, 96 * 15, 96 * 15, 96 * 90 / 4, 96 * (3660 - 30) / 4])


def test_replicas_that_commit_together_did_not_do_it_in_no_time() -> None:
    """Eight replicas, 60 s a unit: 1,000 units take 125 minutes, whenever one asks."""
    left, truth = TimeLeft(1_000, begun_at=0.0), 1_000 / 8 * 60
    for wave in range(1, 40):
        told = []
        for replica in range(8):
            left.committed(1, now=60.0 * wave + 0.5 * replica)
            seconds = left.seconds(60.0 * wave + 0.5 * replica + (56.0 if replica == 7 else 0.0))
            assert seconds is not None
            told.append(seconds)
        done = 60.0 * wave
        assert min(told) > 0.9 * (truth - done)
        assert told[-1] == pytest.approx(truth - done, rel=0.1)


def test_time_left_forgets_what_was_long_ago() -> None:
    left = TimeLeft(10_000, begun_at=-100.0)
    for n in range(100):
        left.committed(1, now=100.0 * n)  # slow
    for n in range(1000):
        left.committed(1, now=9900.0 + n)  # fast: one each second
    assert left.seconds(10899.0) == pytest.approx(8900.0)


def test_units_are_in_flight_from_their_reading_to_their_commit() -> None:
    units = UnitsInFlight()
    units.begin([("read", "1")])
    units.begin([("read", "2")])
    units.begin([("read", "2"), ("read", "2", "file")])  # again, as a process died
    units.begin([("execute", "batch", "Calculator", "1 + 1", "None"), ("sample", "3")])
    units.end([("read", "1")])
    units.begin([("commit", "unit", "1")])
    assert len(units) == 2
    units.end([("commit", "unit", "1"), ("commit", "unit alone", "1")])
    assert len(units) == 1
    units.clear()
    assert len(units) == 0
