from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolRequest, ToolStatus
from tools.calculator import Calculator, InvalidExpression, evaluate, format_value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("18 + 12 * 3", "54"),
        ("723 / 252", "2.87"),
        ("723 - 20", "703"),
        ("2011 - 1994", "17"),
        ("4 * 30", "120"),
        ("658,893 / 11.4%", "5779763.16"),
        ("400 / 1400", "0.29"),
        ("85 / 23", "3.70"),
        ("735 / 499", "1.47"),
        ("27 + 4 * 2", "35"),
        ("10/5", "2"),
        ("1/3*3", "1"),
        ("1/8", "0.13"),
        ("-1/8", "-0.13"),
        ("-1/300", "0.00"),
        ("2.5 - 0", "2.50"),
        ("(1 + 2) * -3", "-9"),
        ("1,234,567 + 1", "1234568"),
        (".5 + .25", "0.75"),
        ("100 + 10%", "100.10"),
        ("12 \u00d7 3", "36"),
        ("12 \u00f7 5", "2.40"),
        ("7 \u2212 9", "-2"),
        ('"3 + 4"', "7"),
        ("\u201c3 + 4\u201d", "7"),
        ('"3 + 4 ="', "7"),
        ("3 + 4 =", "7"),
        ("3--4", "7"),
        ("3 * +4", "12"),
        ("-(1 + 2) * 2", "-6"),
        ("8 - 4 - 2", "2"),
        ("8 / 4 / 2", "1"),
        ("50% * 50%", "0.25"),
        ("3\u00a0+\u00a04", "7"),
    ],
)
def test_the_value_of_an_expression(expression: str, value: str) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("", "empty"),
        (" = ", "empty"),
        ("35", "no operation"),
        ("-35", "no operation"),
        ("50%", "no operation"),
        ("1 / 0", "division by zero"),
        ("1 / (2 - 2)", "division by zero"),
        ("2 ** 3", "missing before '\\*'"),
        ("7 // 2", "missing before '/'"),
        ("2 ^ 3", "from '\\^ 3' on"),
        ("1e5 + 1", "from 'e5 \\+ 1' on"),
        ("12 x 3", "from 'x 3' on"),
        ("$5 + 1", "from '\\$5 \\+ 1' on"),
        ("1 + 1 = 2", "from '= 2' on"),
        ("3 + 4 ==", "from '=' on"),
        ("1 2 + 3", "unexpected '2'"),
        ("1,23 + 1", "from '1,23 \\+ 1' on"),
        ("1234,567 + 1", "from '1234,567 "),
        ("1.2.3 + 1", "from '1.2.3 "),
        ("1 + 2.", "from '2.' on"),
        ("2(3)", "unexpected '\\('"),
        ("(1 + 2)% - 1", "unexpected '%'"),
        ("()", "missing before '\\)'"),
        ("(1 + 2", "not closed"),
        ("1 + 2)", "unexpected '\\)'"),
        ("1 +", "missing before 'the end'"),
        ("1 + \u0665", "cannot be read"),
        ("--1 + 2", "missing before '-'"),
        ("1---2", "missing before '-'"),
        ('"3 + 4', "cannot be read"),
        ("1 + " * 70 + "1", "more than 256 characters"),
        ("1+" * 64 + "1", "more than 128 numbers and signs"),
        ("(" * 33 + "1+1" + ")" * 33, "more than 32 deep"),
        ("1" * 31 + " + 1", "more than 30 digits"),
        ("9" * 20 + "*" + "9" * 20, "too large"),
        ("1 / ." + "0" * 28 + "1 / .01", "too large"),
    ],
)
def test_no_value_and_why(expression: str, why: str) -> None:
    with pytest.raises(InvalidExpression, match=why):
        evaluate(expression)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+" * 63 + "1", "64"),
        ("(" * 32 + "1+1" + ")" * 32, "2"),
        ("+".join(["(" * 8 + "1" + ")" * 8] * 7), "7"),  # 56 parentheses, 8 deep
        ("9" * 30 + " - " + "9" * 30, "0"),
        (" " * 251 + "1 + 1", "2"),
        ("1" + "0" * 15 + " * 1" + "0" * 15, "1" + "0" * 30),
    ],
)
def test_the_limits_are_reached_but_not_passed(expression: str, value: str) -> None:
    assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Fraction(1, 200), "0.01"),  # exactly half: away from zero
        (Fraction(-1, 200), "-0.01"),
        (Fraction(1, 201), "0.00"),
        (Fraction(5, 2), "2.50"),
        (Fraction(-7), "-7"),
    ],
)
def test_two_decimals_half_away_from_zero(value: Fraction, shown: str) -> None:
    assert format_value(value) == shown


Tree = tuple[str, Fraction]


def _rounded(value: Fraction) -> str:
    """Two decimals by the decimal module, which rounds half away from zero on request."""
    with localcontext(prec=200):
        cents = (Decimal(value.numerator) / value.denominator).quantize(
            Decimal("0.01"), ROUND_HALF_UP
        )
    return str(cents if cents else abs(cents))


def _combine(parts: tuple[Tree, str, Tree]) -> Tree:
    (left, a), operator, (right, b) = parts
    if operator == "/" and b == 0:
        operator = "+"
    value = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else a}[operator]
    return f"({left} {operator} {right})", value


numbers = st.integers(0, 999).map(lambda n: (str(n), Fraction(n))) | st.decimals(
    0, 99, places=2
).map(lambda d: (str(d), Fraction(d)))
trees: st.SearchStrategy[Tree] = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(_combine),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(trees, trees, st.sampled_from("+-*"))
def test_equals_a_computation_with_fractions(left: Tree, right: Tree, operator: str) -> None:
    expression, value = _combine((left, operator, right))
    shown = str(value.numerator) if value.denominator == 1 else _rounded(value)
    assert evaluate(expression) == shown


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789.,+-*/()% x=e\u00d7\u2212\"'", max_size=40) | st.text())
def test_no_input_breaks_it(expression: str) -> None:
    (result,) = Calculator().run([ToolRequest(input=expression)])
    assert result.status in (ToolStatus.OK, ToolStatus.INVALID)


def test_one_answer_for_each_request_in_order() -> None:
    requests = [ToolRequest(input=text) for text in ("1 + 1", "nonsense", "2 * 3")]
    assert [result.result for result in Calculator().run(requests)] == ["2", None, "6"]
