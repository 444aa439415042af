import pytest

from pipeline.soak.curves import (
    documents_per_second,
    growths,
    most_units_under_way,
    working_time,
)
from pipeline.soak.plots import curves_svg
from tests.pipeline.soak.handmade import mark, reading

MARKS = [mark(100, 104), mark(101, 106, 20), mark(102, 103, 5), mark(104, 110)]


def test_the_working_time_is_from_the_first_read_to_the_last_commit() -> None:
    assert working_time(MARKS) == (100, 110)


def test_units_under_way_are_those_read_and_not_committed() -> None:
    # 102 to 103: three. At 104 one is committed before the next is counted as read.
    assert most_units_under_way(MARKS) == 3
    assert most_units_under_way([mark(0, 1), mark(1, 2), mark(2, 3)]) == 1


def test_rates_add_up_to_the_documents() -> None:
    curve = documents_per_second(MARKS, points=2)
    assert curve == [(5.0, 3.0), (10.0, 6.0)]  # 15 documents by 105, 30 after it
    assert sum(rate * 5 for _, rate in curve) == 45


def test_growth_is_judged_after_the_warm_up_and_before_stages_end() -> None:
    marks = [mark(0, 10), mark(90, 95)]
    warming = [reading(at, driver=at * 100) for at in range(0, 30, 10)]
    flat = [reading(at, driver=200 + at / 10, store=7) for at in range(30, 91, 10)]
    ended = [reading(95, driver=0)]
    found = growths([*warming, *flat, *ended], marks)
    assert found["driver"].grown_bytes == pytest.approx(6 * 2**20, rel=1e-6)  # 0.1 a second, 60 s
    assert found["driver"].mean_bytes == pytest.approx(206 * 2**20)
    assert found["store"].grown_bytes == pytest.approx(0, abs=1)
    assert growths(ended, marks) == {}


def test_the_driver_is_judged_after_its_first_wave() -> None:
    marks = [mark(0, 20), mark(10, 60), mark(50, 99)]
    readings = [reading(at, driver=min(at, 60), store=at) for at in range(0, 51, 10)]
    readings += [reading(at, driver=60, store=at) for at in (60, 70, 80)]
    marks += [mark(80, 100)]
    found = growths(readings, marks, wave=2)
    assert found["driver"].grown_bytes == pytest.approx(0, abs=1)
    assert found["store"].grown_bytes == pytest.approx(50 * 2**20, rel=1e-6)  # from 30 to 80 s
    assert growths(readings, marks, wave=4)["driver"].grown_bytes > 20 * 2**20


def test_the_picture_shows_every_group_and_stays_inside_its_frame() -> None:
    readings = [reading(100 + at, driver=300, raylet=20 + at) for at in range(0, 11, 2)]
    picture = curves_svg(readings, MARKS, points=5)
    assert picture.count("<polyline") == 3
    assert ">driver 300<" in picture and ">raylet 30<" in picture
    drawn = picture.split('points="')[1:]
    places = [pair.split(",") for line in drawn for pair in line.split('"')[0].split()]
    assert all(70 <= float(x) <= 710 and 0 < float(y) < 560 for x, y in places)
