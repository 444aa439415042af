"""What Dateset asks about days: their parts, in the Calendar's words, and what lies between."""

import datetime as dt

from tools.calendar_date import format_date

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def part_of(day: dt.date, attribute: str) -> tuple[str, ...]:
    """An attribute of a day in the Calendar's words; the day of the month also as an ordinal."""
    weekday, month_and_day, year = written_in_full(day).split(", ")
    month, number = month_and_day.split()
    if attribute == "day of the month":
        ending = "th" if 11 <= day.day <= 13 else _ENDINGS.get(day.day % 10, "th")
        return number, number + ending
    return ({"day of the week": weekday, "month": month, "year": year}[attribute],)


def written_in_full(day: dt.date) -> str:
    """The day as the Calendar writes it: Friday, August 14, 2020."""
    return format_date(day).removeprefix("Today is ").removesuffix(".")


def written(day: dt.date) -> str:
    """The day without its weekday: August 14, 2020."""
    return written_in_full(day).split(", ", 1)[1]


def whole_units(unit: str, first: dt.date, last: dt.date) -> int:
    """How many whole units pass from the first day to the last."""
    days = (last - first).days
    if unit in ("days", "weeks"):
        return days if unit == "days" else days // 7
    months = 12 * (last.year - first.year) + last.month - first.month - (last.day < first.day)
    return months if unit == "months" else months // 12


def units_before(day: dt.date, count: int, unit: str) -> dt.date | None:
    """The day so many units before; None if that month does not have it."""
    if unit in ("days", "weeks"):
        return day - dt.timedelta(days=count if unit == "days" else 7 * count)
    months = 12 * day.year + day.month - 1 - (count if unit == "months" else 12 * count)
    try:
        return dt.date(months // 12, months % 12 + 1, day.day)
    except ValueError:
        return None
