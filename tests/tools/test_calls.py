import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.calls import (
    OPEN,
    ApiCall,
    is_tool_name,
    parse_call,
    pieces_of_call,
    pieces_with_result,
    sanitize_result,
)

SUM = ApiCall(tool="Calculator", input="3 + 4")


def test_the_pieces_of_a_call_spell_it() -> None:
    assert pieces_of_call(SUM) == (" [", "Calculator(3 + 4)", "]")
    assert pieces_with_result(SUM, "7") == (" [", "Calculator(3 + 4)", " ->", " 7", "]")
    assert "".join(pieces_with_result(SUM, "7")) == " [Calculator(3 + 4) -> 7]"


def test_a_call_without_its_result_keeps_the_arrow() -> None:
    assert "".join(pieces_with_result(SUM, "")) == " [Calculator(3 + 4) ->]"


def test_a_call_without_input_has_empty_parentheses() -> None:
    assert str(ApiCall(tool="Calendar", input="")) == "Calendar()"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Calculator(3 + 4)", "3 + 4"),
        ("Calculator((3 + 4) * 2)", "(3 + 4) * 2"),
        ("Calculator()", ""),
        ('Calculator("3")', '"3"'),
        ("Calculator( 3 )", " 3 "),
        ("Calculator(a[3)", "a[3"),
    ],
)
def test_the_input_is_what_stands_between_the_outer_parentheses(text: str, expected: str) -> None:
    assert parse_call(text, "Calculator") == ApiCall(tool="Calculator", input=expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Calculator",
        "Calculator(3 + 4",
        "Calculator 3 + 4)",
        " Calculator(3 + 4)",
        "Calculator(3 + 4) ",
        "Calculator(3 + 4) -> 7",
        "Calculator(3 -> 4)",
        "Calculator(3\n+ 4)",
        "Calculator(3 [Calculator(4)",
        "calculator(3 + 4)",
        "Calculators(3 + 4)",
        "Calendar()",
    ],
)
def test_anything_else_is_no_call_of_this_tool(text: str) -> None:
    assert parse_call(text, "Calculator") is None


@settings(deadline=None)
@given(st.text(alphabet='a1()"[]-> \n') | st.text())
def test_what_a_call_says_is_what_is_parsed_unless_it_holds_a_marker(text: str) -> None:
    call = ApiCall(tool="QA", input=text)
    holds_marker = any(marker in str(call) for marker in (OPEN, "->", "\n"))
    assert parse_call(str(call), "QA") == (None if holds_marker else call)


@pytest.mark.parametrize("name", ["QA", "Calculator", "My_tool2"])
def test_a_tool_name_is_a_word(name: str) -> None:
    assert is_tool_name(name)


@pytest.mark.parametrize("name", ["", "2fast", "a b", "a-b", "a(", "a[", "\u00fcber", "a\n"])
def test_other_text_is_no_tool_name(name: str) -> None:
    assert not is_tool_name(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", "7"),
        ("Spin fishing > Spin fishing is", "Spin fishing > Spin fishing is"),
        ("see [1] and [2]", "see (1) and (2)"),
        ("a -> b", "a - b"),
        ("a \u2192 b", "a - b"),
        ("a -->> b", "a -- b"),
        ("  two\n\n lines\t", "two lines"),
        ("zero\u200bwidth, nul\x00, \u2028line", "zero width, nul , line"),
        ("caf\u00e9 \u00a35 \u5357\u4eac", "caf\u00e9 \u00a35 \u5357\u4eac"),
        ("\n\x00 ", ""),
    ],
)
def test_a_result_is_one_line_without_markers(text: str, expected: str) -> None:
    assert sanitize_result(text) == expected


@settings(deadline=None)
@given(st.text() | st.text(alphabet="[]->\u2192 \n\u200b"))
def test_a_sanitized_result_holds_no_marker_and_stays_as_it_is(text: str) -> None:
    clean = sanitize_result(text)
    assert not any(marker in clean for marker in ("[", "]", "->", "\n"))
    assert clean == clean.strip()
    assert sanitize_result(clean) == clean
