"""Dateset: questions that need today's date, made from the templates of Table 11 (Appendix D).

The paper gives the templates and how many queries of each there are: 9,400 from 500 current
dates. It leaves open how they were drawn, and so here:

- Current dates are different days of 2011 to 2020, the year of its example. Past and future dates
  lie up to four years before and after ("within a four-year range").
- Every filling of a template ("day of the week" with "tomorrow") is asked equally often, at
  current dates drawn for it. The sizes of the table allow that, with ten federal holidays.
- A question that would have no answer, or more than one, is not "relevant": "6 months ago" on
  August 31, "0 weeks ago", and how long until a holiday that is today.
- Weeks, months and years until a holiday are whole ones that pass, so years are always 0.
"""

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from training.benchmarks.days import part_of, units_before, whole_units, written
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.holidays import HOLIDAYS
from training.benchmarks.questions import question_prompt

# Table 11, top to bottom; the names are ours.
SIZES = {
    "days_between": 400,
    "ago": 800,
    "ahead": 800,
    "weekday": 400,
    "near": 4000,
    "holiday": 1800,
    "holiday_between": 1200,
}
NUM_CURRENT_DATES = 500
_FIRST, _LAST = dt.date(2011, 1, 1), dt.date(2020, 12, 31)
_FOUR_YEARS = 4 * 365 + 1  # days

_ATTRIBUTES = ("day of the week", "day of the month", "month", "year")
_UNITS = ("days", "weeks", "months", "years")
_NEAR = {
    "the day before yesterday": -2,
    "yesterday": -1,
    "today": 0,
    "tomorrow": 1,
    "the day after tomorrow": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dates:
    current: dt.date
    past: dt.date
    future: dt.date


_T = TypeVar("_T")

# A template, what fills its choices, the question and its right answers.
_Query: TypeAlias = tuple[str, tuple[str, ...], str, tuple[str, ...]]
# The current date, the question and its right answers.
_Asked: TypeAlias = tuple[dt.date, str, tuple[str, ...]]


def dateset(*, seed: int = 0) -> Benchmark:
    """All 9,400 queries; the Calendar is told the current date of each.

    A group is a template. The same seed gives the same queries on every machine. "For both tasks,
    we use the same evaluation as for the original LAMA dataset" (section 4.2.5).
    """
    rng = random.Random(seed)
    pool: dict[str, dict[tuple[str, ...], list[_Asked]]]
    pool = {template: defaultdict(list) for template in SIZES}
    for dates in _draw_dates(rng):
        for template, filling, question, answers in _queries(dates):
            pool[template][filling].append((dates.current, question, answers))
    examples: list[Example] = []
    for template, size in SIZES.items():
        share, rest = divmod(size, len(pool[template]))
        assert rest == 0, f"{template}: {size} queries are not shared evenly"
        drawn = (
            query for queries in pool[template].values() for query in _draw(rng, queries, share)
        )
        for number, (current, question, answers) in enumerate(drawn, start=1):
            examples.append(
                Example(
                    id=f"{template}/{number}",
                    prompt=question_prompt(question),
                    answers=answers,
                    group=template,
                    date=current,
                )
            )
    return Benchmark(
        name="dateset",
        examples=tuple(examples),
        criterion="word_within_5",
        without_tools=(),
        skipped={},
    )


def _draw_dates(rng: random.Random) -> list[_Dates]:
    days = [_FIRST + dt.timedelta(days=day) for day in range((_LAST - _FIRST).days + 1)]
    return [
        _Dates(
            current=current,
            past=current - _up_to_four_years(rng),
            future=current + _up_to_four_years(rng),
        )
        for current in _draw(rng, days, NUM_CURRENT_DATES)
    ]


def _up_to_four_years(rng: random.Random) -> dt.timedelta:
    return dt.timedelta(days=1 + int(rng.random() * _FOUR_YEARS))


def _draw(rng: random.Random, values: list[_T], count: int) -> list[_T]:
    """`count` different ones. Only random() itself is the same in every version of Python."""
    assert count <= len(values), f"{count} of {len(values)} cannot be drawn"
    order = sorted(range(len(values)), key=lambda _: rng.random())
    return [values[index] for index in order[:count]]


def _queries(dates: _Dates) -> Iterator[_Query]:
    """Each template filled in each way that is relevant for these dates."""
    yield from _of_days(dates)
    yield from _of_durations(dates)
    for attribute in _ATTRIBUTES:
        for when, days in _NEAR.items():
            day = dates.current + dt.timedelta(days=days)
            verb = "was" if days < 0 else "is"
            yield (
                "near",
                (attribute, when),
                f"What {attribute} {verb} it {when}",
                part_of(day, attribute),
            )
    for holiday, day_of in HOLIDAYS.items():
        yield from _of_holiday(dates.current, holiday, day_of(dates.current.year))


def _of_days(dates: _Dates) -> Iterator[_Query]:
    past, future = written(dates.past), written(dates.future)
    ago = str((dates.current - dates.past).days)
    yield "days_between", ("ago",), f"How many days ago was {past}", (ago,)
    until = str((dates.future - dates.current).days)
    yield "days_between", ("until",), f"How many days are there until {future}", (until,)
    for verb, day in (("was", dates.past), ("is", dates.future)):
        question = f"What day of the week {verb} it on {written(day)}"
        yield "weekday", (verb,), question, part_of(day, "day of the week")


def _of_durations(dates: _Dates) -> Iterator[_Query]:
    for unit in _UNITS:
        count = whole_units(unit, dates.past, dates.current)
        day = units_before(dates.current, count, unit)
        if count == 0 or day is None:
            continue
        duration = f"{count} {unit}" if count > 1 else f"1 {unit.removesuffix('s')}"
        for attribute in _ATTRIBUTES:
            question = f"What {attribute} was it {duration} ago"
            yield "ago", (attribute, unit), question, part_of(day, attribute)
    count = (dates.future - dates.current).days
    for attribute in _ATTRIBUTES:
        question = f"What {attribute} will it be in {count} {'days' if count > 1 else 'day'}"
        yield "ahead", (attribute,), question, part_of(dates.future, attribute)


def _of_holiday(current: dt.date, holiday: str, day: dt.date) -> Iterator[_Query]:
    verb = "was" if day < current else "is"
    for attribute in _ATTRIBUTES[:3]:
        question = f"What {attribute} {verb} {holiday} this year"
        yield "holiday", (attribute, holiday), question, part_of(day, attribute)
    if day == current:
        return
    first, last = sorted((day, current))
    between = "ago was" if day < current else "are there until"
    for unit in _UNITS:
        question = f"How many {unit} {between} {holiday} this year"
        answers = (str(whole_units(unit, first, last)),)
        yield "holiday_between", (unit, holiday), question, answers
