"""The Calculator tool: exact arithmetic with + - * / (paper section 3 and Appendix A.1).

    expr  := term (("+" | "-") term)*
    term  := unary (("*" | "/") unary)*
    unary := ("+" | "-")? atom
    atom  := NUMBER "%"? | "(" expr ")"

Everything is computed in fractions: no floats, no eval, and no operator that could blow up.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

from tools.base import ToolRequest, ToolResult

_MAX_CHARACTERS = 256
_MAX_TOKENS = 128
_MAX_DEPTH = 32
_MAX_DIGITS = 30
_MAX_MAGNITUDE = 10**30
# More than any input within the limits above takes; those must not grow without it being seen.
MAX_STEPS = 1000

_FOLD = str.maketrans(
    dict.fromkeys("\u00d7\u2715\u2716\u2219\u22c5\u00b7\u2217\uff0a", "*")
    | dict.fromkeys("\u00f7\u2215\u2044\uff0f", "/")
    | dict.fromkeys("\u2212\u2013\u2014\u2012\uff0d", "-")
    | {"\uff0b": "+", "\uff08": "(", "\uff09": ")", "\uff05": "%"}
)
_QUOTES = ('""', "''", "\u201c\u201d", "\u201d\u201d", "\u2018\u2019", "\u2019\u2019")
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?![0-9.,])"
_TOKEN = re.compile(rf"\s*(?:({_NUMBER})|([-+*/%()]))")


class InvalidExpression(ValueError):
    """What was given is no expression this calculator answers; the text says why."""


class Work:
    """Counts the steps of an evaluation: tokens looked at, and 64-bit words computed with."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self.num_steps = 0
        self._limit = limit

    def add(self, num_steps: int) -> None:
        """Raises InvalidExpression when there are more steps than the limit."""
        self.num_steps += num_steps
        if self.num_steps > self._limit:
            raise InvalidExpression(f"more than {self._limit} steps")


def evaluate(expression: str, work: Work | None = None) -> str:
    """The value of `expression`: an integer as such, anything else with two decimals.

    Rounding is half away from zero ("0.29", "3.70"); a percentage is a hundredth of its number,
    also in a sum: "100 + 10%" is "100.10". What it took is counted into `work`.

    Raises:
        InvalidExpression: no expression of the grammar above with at least one operator, too
            large, or a division by zero.
    """
    tokens = _tokens(_unwrapped(expression))
    parser = _Parser(tokens, work or Work())
    value = parser.whole()
    if not parser.num_operations:
        raise InvalidExpression("no operation in it")
    return format_value(value)


def format_value(value: Fraction) -> str:
    """`value` as the calculator writes it."""
    if value.denominator == 1:
        return str(value.numerator)
    cents = (abs(value) * 200 + 1) // 2
    sign = "-" if value < 0 and cents else ""
    return f"{sign}{cents // 100}.{cents % 100:02d}"


class Calculator:
    """Evaluates the input of a call as arithmetic; anything else has no result."""

    name = "Calculator"
    version = "1"

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [_answer(request.input) for request in requests]


def _answer(expression: str) -> ToolResult:
    try:
        return ToolResult.ok(evaluate(expression))
    except InvalidExpression as error:
        return ToolResult.invalid(str(error))


def _unwrapped(expression: str) -> str:
    """`expression` without quotes around all of it and without one "=" at its end."""
    if len(expression) > _MAX_CHARACTERS:
        raise InvalidExpression(f"more than {_MAX_CHARACTERS} characters")
    text = expression.strip()
    if len(text) >= 2 and text[0] + text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text.removesuffix("=").strip().translate(_FOLD)


def _tokens(text: str) -> list[str]:
    """Numbers, operators and parentheses of `text`; the last token is "" for the end."""
    if not text:
        raise InvalidExpression("empty")
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidExpression(f"cannot be read from {text[at:].strip()[:10]!r} on")
        tokens.append(match[1] or match[2])
        at = match.end()
    if len(tokens) > _MAX_TOKENS:
        raise InvalidExpression(f"more than {_MAX_TOKENS} numbers and signs")
    return [*tokens, ""]


class _Parser:
    """Recursive descent over the tokens; one method for each rule of the grammar."""

    def __init__(self, tokens: Sequence[str], work: Work) -> None:
        self.num_operations = 0
        self._tokens = tokens
        self._work = work
        self._at = 0
        self._depth = 0

    def whole(self) -> Fraction:
        value = self._expr()
        if self._tokens[self._at]:
            raise InvalidExpression(f"unexpected {self._tokens[self._at]!r}")
        return value

    def _expr(self) -> Fraction:
        value = self._term()
        while operator := self._accept("+-"):
            operand = self._term()
            self._count_operation(value, operand)
            value = value + operand if operator == "+" else value - operand
        return value

    def _term(self) -> Fraction:
        value = self._unary()
        while operator := self._accept("*/"):
            operand = self._unary()
            self._count_operation(value, operand)
            if operator == "/" and not operand:
                raise InvalidExpression("division by zero")
            value = value * operand if operator == "*" else value / operand
            if abs(value) > _MAX_MAGNITUDE:
                raise InvalidExpression("too large")
        return value

    def _unary(self) -> Fraction:
        sign = self._accept("+-")
        value = self._atom()
        return -value if sign == "-" else value

    def _atom(self) -> Fraction:
        self._work.add(1)
        token = self._tokens[self._at]
        if token == "(":
            return self._parenthesis()
        if not token or token in "+-*/%)":
            raise InvalidExpression(f"a number is missing before {token or 'the end'!r}")
        self._at += 1
        if sum(character.isdigit() for character in token) > _MAX_DIGITS:
            raise InvalidExpression(f"a number of more than {_MAX_DIGITS} digits")
        value = Fraction(token.replace(",", ""))
        return value / 100 if self._accept("%") else value

    def _parenthesis(self) -> Fraction:
        self._at += 1
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidExpression(f"parentheses more than {_MAX_DEPTH} deep")
        value = self._expr()
        if not self._accept(")"):
            raise InvalidExpression("a parenthesis is not closed")
        self._depth -= 1
        return value

    def _accept(self, operators: str) -> str:
        """The next token, consumed, if it is one of `operators`; else ""."""
        self._work.add(1)
        token = self._tokens[self._at]
        if not token or token not in operators:
            return ""
        self._at += 1
        return token

    def _count_operation(self, *operands: Fraction) -> None:
        self.num_operations += 1
        for operand in operands:
            num_bits = operand.numerator.bit_length() + operand.denominator.bit_length()
            self._work.add(1 + num_bits // 64)
