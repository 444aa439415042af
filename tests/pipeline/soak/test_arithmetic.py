"""The figures of each experiment, on marks and readings whose answers are computed by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.rundir import DoneMark, RunDir
from pipeline.soak.endurance import memory_checks
from pipeline.soak.overhead import overhead
from pipeline.soak.processes import EVERY_GROUP, Reading
from pipeline.soak.scaling import measured, with_efficiencies
from pipeline.soak.stragglers import judged
from pipeline.soak.watching import Watched
from tests.pipeline.soak.handmade import cpu_reading, mark, reading
from tools.base import ToolformerError

# Ten units, one committed at each even second from 2 to 20: a quarter of them warms up.
TEN = [mark(at - 2, at, tokens={"position_tokens": 100 * at}) for at in range(2, 21, 2)]
CPU = [
    cpu_reading(5, driver=50, replicas=90),
    cpu_reading(7, driver=1.0, replicas=10),
    cpu_reading(13, driver=1.5, replicas=12),
    cpu_reading(17, driver=2.0, replicas=12.5, tools=1),
    cpu_reading(21, driver=9, replicas=99),
]
WATCHED = Watched(run=RunDir(Path("run")), readings=CPU, marks=TEN, wall_s=30)


def test_overhead_is_counted_between_two_readings_that_units_surround() -> None:
    # After the third commit, at 6, and until the last, at 20, there are readings at 7, 13 and 17;
    # from 7 to 17 five units are committed, at 8, 10, 12, 14 and 16.
    found = overhead(WATCHED)
    assert found["units_measured"] == 5
    assert found["cpu_s_per_unit_by_group"] == {"driver": 0.2, "replicas": 0.5, "tools": 0.2}
    assert found["cpu_s_per_unit"] == pytest.approx(0.9)
    assert found["wall_s_per_unit"] == 2.0
    assert found["share_of_a_unit"] == pytest.approx(0.03)  # of 30 s
    assert found["position_tokens_per_unit"] == 1100


@pytest.mark.parametrize("readings", [[], CPU[:1], CPU[1:2], CPU[4:]])
def test_overhead_that_nobody_read_is_an_error(readings: list[Reading]) -> None:
    with pytest.raises(ToolformerError, match="over before it could be measured"):
        overhead(replace(WATCHED, readings=readings))


def test_rates_of_nodes_with_the_ends_and_without() -> None:
    # One node: read at 0, 3 s to the first commit, then one every second to 10.
    one = [mark(n, n + 3, seconds={"sample": 0.5, "score": 0.25}) for n in range(8)]
    # Two: the same times, two units at each.
    two = [unit for unit in one for _ in range(2)]
    rows = [measured(one, 1), measured(two, 2)]
    assert rows[0] == {
        "nodes": 1,
        "units": 8,
        "whole_s": 10,
        "units_per_s": 0.8,
        "steady_units_per_s": 1.0,  # commits at 5 and 8, 3 units from one to the other
        "engine_share": pytest.approx(0.6),  # 8 times 0.75 s of 10 s
    }
    # Commits 4 (at 5) to 11 (at 8) of 16, counted from 0: 7 units in 3 s.
    assert rows[1]["steady_units_per_s"] == pytest.approx(7 / 3)
    assert rows[1]["units_per_s"] == 1.6
    assert rows[1]["engine_share"] == pytest.approx(0.6)
    assert [row["efficiency"] for row in with_efficiencies(rows)] == [1.0, 1.0]


def test_efficiency_is_the_share_of_as_many_first_nodes() -> None:
    rows = [
        {"nodes": 2, "units_per_s": 4.0, "steady_units_per_s": 5.0},
        {"nodes": 8, "units_per_s": 12.0, "steady_units_per_s": 19.0},
    ]
    [_, eight] = with_efficiencies(rows)
    assert eight == rows[1] | {"efficiency": 0.75, "steady_efficiency": 0.95}


def unit(unit_id: str, begun_at: float, own_s: float, *, waited_s: float = 0.0) -> DoneMark:
    seconds = {"sample": own_s * 3 / 4, "score": own_s / 4, "execute": 100.0}
    return mark(begun_at, begun_at + waited_s + own_s, unit_id=unit_id, seconds=seconds)


@pytest.mark.parametrize(
    ("waited_s", "begun_at", "holds"),
    [
        (0.0, 0.0, [True]),
        (19.5, 0.0, [True]),  # it waited for the slow one, and the end did not
        (0.0, 41.0, [False]),  # ends at 42: 31 s after the even share of 11 s
    ],
)
def test_stragglers_are_judged_by_an_even_share_and_the_slowest(
    waited_s: float, begun_at: float, holds: list[bool]
) -> None:
    # 24 units of one second each and a slow one of 20: 44 s are 11 for each of four replicas.
    fast = [unit(f"{n}", n / 4, 1.0) for n in range(23)]
    marks = [*fast, unit("23", begun_at, 1.0, waited_s=waited_s), unit("slow", 0.0, 20.0)]
    part = judged(marks, {"slow"})
    assert part.figures["even_share_s"] == 11.0
    assert part.figures["slowest_unit_s"] == 20.0
    assert part.figures["fast_unit_s"] == 1.0
    assert part.figures["fast_unit_longest_under_way_s"] == 1.0 + waited_s
    assert [check.holds for check in part.checks] == holds


def holds_of_memory(num_documents: int, grown_mib: float) -> set[bool | None]:
    marks = [mark(0, 10, num_documents - 10), mark(90, 95)]
    readings = [
        reading(at, **{group: 100 + grown_mib * (at - 30) / 60 for group in EVERY_GROUP})
        for at in range(30, 91, 10)
    ]
    return {check.holds for check in memory_checks(readings, marks)}


def test_memory_may_grow_by_32_mib_or_a_tenth() -> None:
    assert holds_of_memory(200_000, 31) == {True}
    assert holds_of_memory(200_000, 33) == {False}
    assert holds_of_memory(199_999, 33) == {None}  # too short to tell
    marks = [mark(0, 10, 200_000), mark(90, 95)]
    large = [reading(at, driver=1000 + at) for at in (30, 60, 90)]  # 60 MiB on 1060
    verdicts = {check.name: check.holds for check in memory_checks(large, marks)}
    assert verdicts.pop("memory of driver is flat after the warm-up") is True
    assert set(verdicts.values()) == {False}  # of the others there was nothing to be judged
    assert len(verdicts) == len(EVERY_GROUP) - 1


def test_memory_that_nobody_could_judge_fails_a_long_run() -> None:
    for num_documents, expected in ((200_000, False), (199_999, None)):
        checks = memory_checks([], [mark(0, 10, num_documents)])
        assert [check.holds for check in checks] == [expected] * len(EVERY_GROUP)
        assert {check.got for check in checks} == {"not read after the warm-up"}
