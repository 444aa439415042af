"""Every answer is computed a second time, from the words of its question, by walking over days."""

import calendar
import datetime as dt
import hashlib
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from training.benchmarks.dateset import dateset
from training.benchmarks.example import Benchmark, Example

# Table 11.
SIZES = {
    "days_between": 400,
    "ago": 800,
    "ahead": 800,
    "weekday": 400,
    "near": 4000,
    "holiday": 1800,
    "holiday_between": 1200,
}
ATTRIBUTE = r"(?P<attribute>day of the week|day of the month|month|year)"
DATE = r"(?P<date>[A-Z][a-z]+ [0-9]{1,2}, [0-9]{4})"
NEAR = ["the day before yesterday", "yesterday", "today", "tomorrow", "the day after tomorrow"]
QUESTIONS = {
    "days_between": rf"How many days (?:ago was|are there until) {DATE}\?",
    "ago": rf"What {ATTRIBUTE} was it (?P<count>[0-9]+) (?P<unit>day|week|month|year)s? ago\?",
    "ahead": rf"What {ATTRIBUTE} will it be in (?P<count>[0-9]+) days?\?",
    "weekday": rf"What (?P<attribute>day of the week) (?P<verb>is|was) it on {DATE}\?",
    "near": rf"What {ATTRIBUTE} (?P<verb>is|was) it (?P<when>{'|'.join(NEAR)})\?",
    "holiday": rf"What {ATTRIBUTE} (?P<verb>is|was) (?P<holiday>[A-Z].*) this year\?",
    "holiday_between": r"How many (?P<unit>day|week|month|year)s "
    r"(?P<between>ago was|are there until) (?P<holiday>[A-Z].*) this year\?",
}
DAY = dt.timedelta(days=1)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return dateset()


def parsed(benchmark: Benchmark, template: str) -> Iterator[tuple[Example, dt.date, re.Match[str]]]:
    for example in benchmark.examples:
        if example.group == template:
            found = re.fullmatch(
                "Answer the following question: " + QUESTIONS[template], example.prompt
            )
            assert found is not None, example.prompt
            assert example.date is not None
            yield example, example.date, found


def walk(day: dt.date, steps: int) -> dt.date:
    for _ in range(abs(steps)):
        day += DAY if steps > 0 else -DAY
    return day


def has(day: dt.date, attribute: str, answers: tuple[str, ...]) -> bool:
    form = {"day of the week": "%A", "day of the month": "%d", "month": "%B", "year": "%Y"}
    expected = day.strftime(form[attribute]).lstrip("0")
    if attribute != "day of the month":
        return answers == (expected,)
    return answers[0] == expected and re.sub("(st|nd|rd|th)$", "", answers[1]) == expected


def read(text: str) -> dt.date:
    return dt.datetime.strptime(text, "%B %d, %Y").date()


def back(day: dt.date, unit: str, count: int) -> dt.date:
    """So many days before; or, of months and years, that day's number so many times before."""
    if unit in ("day", "week"):
        return walk(day, -count * (7 if unit == "week" else 1))
    start, passed, months = day, 0, 12 * count if unit == "year" else count
    while passed < months:
        day -= DAY
        # A month is passed at its last day, whether or not it has the number.
        passed += (day + DAY).day == 1
    while day.day != start.day:
        day -= DAY
    return day


def holiday_of(name: str, year: int) -> dt.date:
    """By the calendar's weeks; each is a list of seven days, Monday first, 0 outside the month."""
    fixed = {
        "New Year's Day": (1, 1),
        "Independence Day": (7, 4),
        "Veterans Day": (11, 11),
        "Christmas": (12, 25),
    }
    if name in fixed:
        return dt.date(year, *fixed[name])
    month, column, n = {
        "Martin Luther King Jr. Day": (1, 0, 2),
        "Presidents' Day": (2, 0, 2),
        "Memorial Day": (5, 0, -1),
        "Labor Day": (9, 0, 0),
        "Columbus Day": (10, 0, 1),
        "Thanksgiving": (11, 3, 3),
    }[name]
    days = [week[column] for week in calendar.monthcalendar(year, month) if week[column]]
    return dt.date(year, month, days[n])


def test_there_are_as_many_queries_of_each_template_as_in_table_11(benchmark: Benchmark) -> None:
    assert Counter(example.group for example in benchmark.examples) == SIZES
    assert len(benchmark.examples) == 9400
    assert len({example.date for example in benchmark.examples}) == 500
    assert len({example.id for example in benchmark.examples}) == 9400
    assert len({(example.date, example.prompt) for example in benchmark.examples}) == 9400


def test_days_between_are_as_many_as_walked(benchmark: Benchmark) -> None:
    kinds: Counter[str] = Counter()
    for example, current, found in parsed(benchmark, "days_between"):
        day, (answer,) = read(found["date"]), example.answers
        is_past = "ago was" in example.prompt
        assert 1 <= int(answer) <= 1461
        assert walk(current, -int(answer) if is_past else int(answer)) == day
        kinds["past" if is_past else "future"] += 1
    assert kinds == {"past": 200, "future": 200}


def test_a_day_some_units_ago_is_that_day(benchmark: Benchmark) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for example, current, found in parsed(benchmark, "ago"):
        day = back(current, found["unit"], int(found["count"]))
        assert has(day, found["attribute"], example.answers), (current, example)
        assert (f"1 {found['unit']} ago" in example.prompt) == (found["count"] == "1")
        kinds[found["attribute"], found["unit"]] += 1
    assert len(kinds) == 16 and set(kinds.values()) == {50}


def test_a_day_ahead_and_a_named_day_are_those_days(benchmark: Benchmark) -> None:
    for example, current, found in parsed(benchmark, "ahead"):
        assert has(walk(current, int(found["count"])), found["attribute"], example.answers)
    for example, current, found in parsed(benchmark, "weekday"):
        day = read(found["date"])
        assert has(day, "day of the week", example.answers)
        assert (found["verb"] == "was") == (day < current)


def test_days_near_today_are_those_days(benchmark: Benchmark) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for example, current, found in parsed(benchmark, "near"):
        steps = NEAR.index(found["when"]) - 2
        assert has(walk(current, steps), found["attribute"], example.answers)
        assert (found["verb"] == "was") == (steps < 0)
        kinds[found["attribute"], found["when"]] += 1
    assert len(kinds) == 20 and set(kinds.values()) == {200}


def test_holidays_are_on_their_days(benchmark: Benchmark) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for example, current, found in parsed(benchmark, "holiday"):
        day = holiday_of(found["holiday"], current.year)
        assert has(day, found["attribute"], example.answers)
        assert (found["verb"] == "was") == (day < current)
        kinds[found["attribute"], found["holiday"]] += 1
    assert len(kinds) == 30 and set(kinds.values()) == {60}
    assert "year" not in {attribute for attribute, _ in kinds}


def test_between_a_holiday_and_today_the_units_of_the_answer_fit_and_no_more(
    benchmark: Benchmark,
) -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for example, current, found in parsed(benchmark, "holiday_between"):
        day, (answer,) = holiday_of(found["holiday"], current.year), example.answers
        assert day != current
        assert (found["between"] == "ago was") == (day < current)
        first, last = sorted((day, current))
        assert int(answer) == num_whole(found["unit"], first, last), (current, example)
        kinds[found["unit"], found["holiday"]] += 1
    assert len(kinds) == 40 and set(kinds.values()) == {30}


def num_whole(unit: str, first: dt.date, last: dt.date) -> int:
    """Counted day by day: every seventh day, or every one that has the first one's number."""
    days = [first + steps * DAY for steps in range(1, (last - first).days + 1)]
    if unit in ("day", "week"):
        return len(days) // (7 if unit == "week" else 1)
    # Months of one year, so no whole year; the short month that lacks the number counts when over.
    numbers = [min(first.day, calendar.monthrange(day.year, day.month)[1]) for day in days]
    whole = sum(day.day == number for day, number in zip(days, numbers, strict=True))
    return whole if unit == "month" else whole // 12


def test_a_seed_gives_the_same_queries_on_every_machine(benchmark: Benchmark) -> None:
    def digest(benchmark: Benchmark) -> str:
        lines = [f"{e.id} {e.date} {e.prompt} {e.answers}\n" for e in benchmark.examples]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    assert digest(benchmark).startswith("14b2693c39dcedb8")
    assert digest(dateset(seed=1)) != digest(benchmark)


def test_it_is_judged_like_lama(benchmark: Benchmark) -> None:
    assert benchmark.criterion == "word_within_5"
    assert (benchmark.without_tools, benchmark.skipped) == ((), {})
