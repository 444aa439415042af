"""The days of the federal holidays of the United States, which Dateset asks for (Appendix D)."""

import datetime as dt
from collections.abc import Callable

_MONDAY, _THURSDAY = 0, 3


def _fixed(month: int, day: int) -> Callable[[int], dt.date]:
    """The holiday itself, not the day off that replaces it where it falls on a weekend."""
    return lambda year: dt.date(year, month, day)


def _nth(n: int, weekday: int, month: int) -> Callable[[int], dt.date]:
    def day(year: int) -> dt.date:
        first = dt.date(year, month, 1)
        return first + dt.timedelta(days=(weekday - first.weekday()) % 7 + 7 * (n - 1))

    return day


def _last_monday_of_may(year: int) -> dt.date:
    last = dt.date(year, 5, 31)
    return last - dt.timedelta(days=last.weekday())


# The paper says "the federal holidays in the United States (e.g., Thanksgiving)". These are those
# of every year until 2020; Juneteenth came in 2021. Inauguration Day is one in one city only.
HOLIDAYS: dict[str, Callable[[int], dt.date]] = {
    "New Year's Day": _fixed(1, 1),
    "Martin Luther King Jr. Day": _nth(3, _MONDAY, 1),
    "Presidents' Day": _nth(3, _MONDAY, 2),
    "Memorial Day": _last_monday_of_may,
    "Independence Day": _fixed(7, 4),
    "Labor Day": _nth(1, _MONDAY, 9),
    "Columbus Day": _nth(2, _MONDAY, 10),
    "Veterans Day": _fixed(11, 11),
    "Thanksgiving": _nth(4, _THURSDAY, 11),
    "Christmas": _fixed(12, 25),
}
