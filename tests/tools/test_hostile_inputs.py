"""What a model may write into a call: none of it breaks a tool, or makes it work without bound."""

import datetime as dt
import json
import random
import re
import time
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolRequest, ToolResult, ToolStatus
from tools.calculator import MAX_STEPS, Calculator, InvalidExpression, Work, evaluate
from tools.calendar_date import CalendarTool, date_from_url
from tools.calls import (
    ARROW,
    OPEN,
    ApiCall,
    parse_call,
    pieces_of_call,
    pieces_with_result,
    sanitize_result,
)
from tools.wikisearch.tool import WikiSearch

_INPUTS_PER_EXAMPLE = 400
_MANY = settings(max_examples=250, derandomize=True, deadline=None, database=None)
_SOME = settings(max_examples=10, derandomize=True, deadline=None, database=None)

NUMBERS = (*"0123456789", "12", "1,234", "9.99", ".5", "7%", "1.10", "9" * 30, "(1+2)", "(((4)))")
OPERATORS = (*"+-*/", " + ", " - ", " * ", " / ", "\u00d7", "\u00f7", "\u2212", "\uff0b")
SIGNS = (
    *"%().,=\"' ", "((", "))", "-(", "1/", "--", "\u2013", "\uff08", "\uff09", "\uff05", "\u201c",
    "\u201d",
)  # fmt: skip
NASTY = (
    "", "\x00", "\ud800", "\udfff", "\r\n", "\u2028", "\u0085", "\ufeff", "\u202e", "\u200b",
    "\u0661", "\u0967", "\U0001d7d9", "\u00b2", "\u2155", "\u2160", "\uff11",  # digits of a kind
    "**", "//", "^", "1e5", "0x1f", "1_000", "inf", "nan", "__import__('os')", "9" * 31, "9" * 300,
    "[", "]", "->", "\u2192", " [", " ->", "->>", "Calculator(", ")", "(" * 40, ")" * 40, "+1" * 70,
    "{x}", "%s", "${HOME}", "../../etc/passwd", "<script>", "'; DROP TABLE calls; --", "\\",
    "\x1b[2J", "e\u0301\u0301\u0301", "\U0001f469\u200d\U0001f469", "AND", 'title:"a"~2', "*:*",
)  # fmt: skip
GRAMMAR = (*NUMBERS, *OPERATORS, *SIGNS)

fragments = st.lists(
    st.text(max_size=6)
    | st.sampled_from(GRAMMAR)
    | st.sampled_from(NASTY)
    | st.characters()  # lone surrogates among them
    | st.text(alphabet="0123456789", min_size=1, max_size=40)
    | st.integers(30, 36).map(lambda depth: "(" * depth + "1+1" + ")" * depth),
    min_size=1,
    max_size=16,
)


def inputs(pieces: Sequence[str], seed: int) -> list[str]:
    """Texts put together of fragments: hypothesis itself would take minutes for so many."""
    draw = random.Random(seed)
    pool = [*pieces, *draw.choices(GRAMMAR, k=draw.randrange(24))]
    half = _INPUTS_PER_EXAMPLE // 2
    noise = ["".join(draw.choices(pool, k=draw.randrange(1, 48))) for _ in range(half)]
    return noise + [_near_the_grammar(draw, pool) for _ in range(half)]


def _near_the_grammar(draw: random.Random, pool: Sequence[str]) -> str:
    """Numbers and operators in turn, with a fragment somewhere in half of the texts."""
    num_operations = draw.randrange(1, draw.choice((5, 5, 5, 40)))
    numbers = draw.choices(NUMBERS, k=num_operations)
    operators = draw.choices(OPERATORS, k=num_operations)
    parts = [part for pair in zip(numbers, operators, strict=True) for part in pair] + ["1"]
    if draw.random() < 0.5:
        parts.insert(draw.randrange(len(parts)), draw.choice(pool))
    return "".join(parts)


def over_inputs(limits: settings, check: Callable[[str], None]) -> int:
    """Check every input of every example; returns how many there were."""
    num_inputs = 0

    @limits
    @given(fragments, st.integers(0, 2**32 - 1))
    def check_all(pieces: list[str], seed: int) -> None:
        nonlocal num_inputs
        for text in inputs(pieces, seed):
            check(text)
            num_inputs += 1

    check_all()
    return num_inputs


@dataclass
class Seen:
    statuses: dict[ToolStatus, int] = field(default_factory=dict)
    most_steps: tuple[int, str] = (0, "")
    slowest: tuple[float, str] = (0.0, "")

    def add(self, text: str, result: ToolResult, num_steps: int, seconds: float) -> None:
        self.statuses[result.status] = self.statuses.get(result.status, 0) + 1
        self.most_steps = max(self.most_steps, (num_steps, text))
        self.slowest = max(self.slowest, (seconds, text))


def steps_of(expression: str) -> int:
    """What an evaluation takes when nothing stops it."""
    work = Work(limit=10**12)
    with suppress(InvalidExpression):
        evaluate(expression, work)
    return work.num_steps


def test_a_hundred_thousand_inputs_of_the_calculator(
    record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    calculator, seen = Calculator(), Seen()

    def check(text: str) -> None:
        began = time.thread_time()
        (result,) = calculator.run([ToolRequest(input=text)])
        seconds = time.thread_time() - began
        assert isinstance(result, ToolResult)
        if result.status is ToolStatus.OK:
            assert re.fullmatch(r"-?[0-9]+(\.[0-9]{2})?", result.result or "")
        else:
            assert result.status is ToolStatus.INVALID and result.error
        num_steps = steps_of(text)
        assert num_steps <= MAX_STEPS
        seen.add(text, result, num_steps, seconds)

    num_inputs = over_inputs(_MANY, check)
    assert num_inputs >= 100_000
    num_ok = seen.statuses[ToolStatus.OK]
    assert num_ok > 5000  # it was no noise alone
    steps, costly = seen.most_steps
    seconds, slow = seen.slowest
    record_property("inputs", num_inputs)
    record_property("slowest input", ascii(slow))
    with capsys.disabled():
        print(
            f"\ncalculator: {num_inputs} inputs, {num_ok} with a value; slowest "
            f"{1e6 * seconds:.0f} us: {slow[:60]!a}; most steps {steps}: {costly[:60]!a}"
        )


def _sum_of_fractions(num_digits: int) -> str:
    """As many different denominators of a size as fit: their product is that of the sum."""
    draw, text = random.Random(num_digits), "0"
    while len(text) + num_digits + 3 <= 256:
        text += f"+1/{draw.randrange(10 ** (num_digits - 1), 10**num_digits) | 1}"
    return text


@pytest.mark.parametrize(
    "expression",
    [
        "+".join(["1"] * 64),
        "-1" + "*-1%" * 31,
        "(" * 32 + "1+1" + ")" * 32,
        "+".join(["-(-1)"] * 21),
        *map(_sum_of_fractions, (4, 5, 8, 16, 30)),
        "1/." + "0" * 28 + "1" + "*1" * 60,
        "9" * 1_000_000,
        "(" * 1_000_000,
        " " * 1_000_000 + "1+1",
        "1," * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_the_costliest_expressions_that_fit_stay_within_the_steps(expression: str) -> None:
    assert steps_of(expression) <= MAX_STEPS


def test_more_steps_than_allowed_are_refused() -> None:
    with pytest.raises(InvalidExpression, match="more than 20 steps"):
        evaluate("1+1+1+1+1+1", Work(limit=20))
    assert steps_of("1+1") == 12


def test_a_call_that_parses_is_written_as_it_was_read() -> None:
    def check(text: str) -> None:
        call = ApiCall(tool="Calculator", input=text)
        parsed = parse_call(str(call), "Calculator")
        if any(foreign in str(call) for foreign in ("\n", "->", OPEN)):
            assert parsed is None
        else:
            assert parsed == call
        parsed = parse_call(text, "Calculator")  # anything the model may write before a "]"
        assert parsed is None or str(parsed) == text

    assert over_inputs(_SOME, check) >= 4000


def test_a_result_stays_one_line_between_its_arrow_and_its_bracket() -> None:
    call = ApiCall(tool="Calculator", input="1 + 1")

    def check(text: str) -> None:
        result = sanitize_result(text)
        assert result == sanitize_result(result) == result.strip()
        assert not any(mark in result for mark in ("[", "]", "->", "\u2192", "  "))
        assert not any(unicodedata.category(character)[0] == "C" for character in result)
        assert len(result.splitlines()) <= 1
        written = "".join(pieces_with_result(call, result))
        before, bracket, after = written.partition("]")
        assert (bracket, after) == ("]", "")
        asked, _, answered = before.partition(ARROW)
        assert asked + "]" == "".join(pieces_of_call(call))
        assert answered.removeprefix(" ") == result

    assert over_inputs(_SOME, check) >= 4000


def test_the_calendar_takes_no_input_whatever_it_is() -> None:
    calendar, day = CalendarTool(), dt.date(2017, 3, 9)

    def check(text: str) -> None:
        (result,) = calendar.run([ToolRequest(input=text, date=day)])
        assert result.status is (ToolStatus.INVALID if text.strip() else ToolStatus.OK)

    assert over_inputs(_SOME, check) >= 4000


def test_no_url_breaks_the_search_for_its_date() -> None:
    crawled = dt.date(2020, 1, 1)

    def check(text: str) -> None:
        for url in (text, f"http://{text}", f"http://host/{text}/2017/03/09/?date={text}"):
            date = date_from_url(url, not_after=crawled)
            assert date is None or dt.date(1995, 1, 1) <= date <= crawled

    assert over_inputs(_SOME, check) >= 4000


@pytest.fixture(scope="module")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> WikiSearch:
    pages = tmp_path_factory.mktemp("encyclopedia") / "pages.jsonl"
    text = ["Paris\n", "Paris is the capital of France and has two million people in it."]
    pages.write_text(json.dumps({"wikipedia_title": "Paris", "text": text}) + "\n")
    return WikiSearch(corpus=str(pages))


def test_no_search_term_breaks_the_search(encyclopedia: WikiSearch) -> None:
    def check(text: str) -> None:
        hostile, found = encyclopedia.run(
            [ToolRequest(input=text), ToolRequest(input=f"capital {text}")]
        )
        assert hostile.status in (ToolStatus.OK, ToolStatus.EMPTY, ToolStatus.INVALID), hostile
        assert found.status in (ToolStatus.OK, ToolStatus.EMPTY), found

    assert over_inputs(_SOME, check) >= 4000
    (long,) = encyclopedia.run([ToolRequest(input="capital " + "x " * 500_000)])
    assert long.status is ToolStatus.OK
