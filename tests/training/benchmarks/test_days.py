import datetime as dt

import pytest

from training.benchmarks.days import part_of, units_before, whole_units, written
from training.benchmarks.holidays import HOLIDAYS


@pytest.mark.parametrize(
    ("day", "ordinal"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
     (21, "21st"), (22, "22nd"), (23, "23rd"), (30, "30th"), (31, "31st")],
)  # fmt: skip
def test_a_day_of_the_month_is_a_number_or_an_ordinal(day: int, ordinal: str) -> None:
    assert part_of(dt.date(2020, 8, day), "day of the month") == (str(day), ordinal)


def test_parts_are_those_of_the_paper_s_days() -> None:
    assert written(dt.date(2020, 8, 14)) == "August 14, 2020"
    # The paper's answer of the Calendar names Sunday; that day was a Friday.
    day = dt.date(2020, 11, 20)
    parts = [part_of(day, attribute) for attribute in ("day of the week", "month", "year")]
    assert parts == [("Friday",), ("November",), ("2020",)]


def test_a_month_without_the_day_has_none() -> None:
    assert units_before(dt.date(2020, 8, 31), 6, "months") is None
    assert units_before(dt.date(2020, 2, 29), 1, "years") is None
    assert units_before(dt.date(2020, 2, 29), 4, "years") == dt.date(2016, 2, 29)
    assert units_before(dt.date(2020, 1, 31), 1, "months") == dt.date(2019, 12, 31)
    assert units_before(dt.date(2020, 3, 7), 1, "weeks") == dt.date(2020, 2, 29)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (dt.date(2018, 1, 15), (0, 0, 0, 0)),
        (dt.date(2018, 2, 14), (30, 4, 0, 0)),
        (dt.date(2018, 2, 15), (31, 4, 1, 0)),
        (dt.date(2019, 1, 14), (364, 52, 11, 0)),
        (dt.date(2019, 1, 15), (365, 52, 12, 1)),
        (dt.date(2021, 1, 14), (1095, 156, 35, 2)),
    ],
)
def test_only_whole_units_count(last: dt.date, expected: tuple[int, ...]) -> None:
    first = dt.date(2018, 1, 15)
    units = ("days", "weeks", "months", "years")
    assert tuple(whole_units(unit, first, last) for unit in units) == expected


def test_holidays_of_2020_are_those_of_that_calendar() -> None:
    days = [day_of(2020) for day_of in HOLIDAYS.values()]
    assert [(day.month, day.day) for day in days] == [
        (1, 1), (1, 20), (2, 17), (5, 25), (7, 4), (9, 7), (10, 12), (11, 11), (11, 26), (12, 25)
    ]  # fmt: skip
