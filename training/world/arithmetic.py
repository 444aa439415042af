"""Sentences whose last number can be computed from numbers that stand before it."""

import random
import zlib
from fractions import Fraction

from tools.calls import ApiCall
from training.world.grammar import capitalise, expand
from training.world.items import Answered, Item
from training.world.names import HELD_OUT_MODULUS
from training.world.slots import Slots

TOOL = "Calculator"
OPERATIONS = ("sum", "sum", "sum3", "diff", "diff", "prod", "prod", "quot", "avg", "years",
              "percent")  # fmt: skip
_TAILS = ("", "", "", "", " so far", " by now", " this time", ", as {who} says", " in {town}")
_JOINTS = (". ", ". ", ". ", "; ", ", so ", ", and ")


def render(value: Fraction) -> str:
    """`value` as the calculator writes it: an integer, or two decimals, half away from zero."""
    if value.denominator == 1:
        return str(value.numerator)
    cents = (abs(value) * 200 + 1) // 2
    sign = "-" if value < 0 and cents else ""
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def _number(rng: random.Random) -> int:
    digits = rng.choices((1, 2, 3, 4), weights=(1, 5, 4, 1))[0]
    return rng.randint(max(2, 10 ** (digits - 1)), 10**digits - 1)


def _operands(operation: str, rng: random.Random) -> tuple[int, int, int]:
    """a, b, c of one operation; c matters for sum3 alone."""
    a, b, c = _number(rng), _number(rng), _number(rng)
    if operation == "diff":
        a, b = max(a, b) + rng.randint(1, 9), min(a, b)
    elif operation == "prod":
        a, b = rng.randint(3, 99), rng.randint(3, 60)
    elif operation == "quot":
        b = rng.randint(2, 24)
        a = b * rng.randint(3, 120) if rng.random() < 0.6 else rng.randint(b + 1, 999)
    elif operation == "avg":
        b = max(2, a + rng.randint(-40, 40))
    elif operation == "years":
        a = rng.randint(1700, 2022)
        b = a - rng.randint(8, 250)
    elif operation == "percent":
        a, b = 10 * rng.randint(3, 300), rng.randint(3, 97)
    return a, b, c


def _expression(operation: str, a: int, b: int, c: int) -> tuple[str, Fraction]:
    match operation:
        case "sum":
            return f"{a} + {b}", Fraction(a + b)
        case "sum3":
            return f"{a} + {b} + {c}", Fraction(a + b + c)
        case "diff" | "years":
            return f"{a} - {b}", Fraction(a - b)
        case "prod":
            return f"{a} * {b}", Fraction(a * b)
        case "quot":
            return f"{a} / {b}", Fraction(a, b)
        case "avg":
            return f"({a} + {b}) / 2", Fraction(a + b, 2)
        case "percent":
            return f"{a} * {b}%", Fraction(a * b, 100)
    raise AssertionError(operation)


def _answered(operation: str, a: int, b: int, c: int) -> Answered:
    expression, value = _expression(operation, a, b, c)
    return Answered(call=ApiCall(TOOL, expression), result=render(value))


def is_held_out(expression: str) -> bool:
    """Whether this computation belongs to the held-out world (one in eight does)."""
    return zlib.crc32(expression.encode()) % HELD_OUT_MODULUS == 0


def _wrong(operation: str, a: int, b: int, c: int, rng: random.Random) -> tuple[Answered, ...]:
    others = [name for name in ("sum", "diff", "prod", "quot") if name != operation]
    fresh = _operands(operation, rng)
    return (
        _answered(rng.choice(others), a, b, c),
        _answered(operation, a, *fresh[1:]),
        _answered(operation, *fresh),
    )


def draw(slots: Slots, rng: random.Random) -> Item:
    """A setup that names the numbers and an answer that states the result."""
    held_out = slots.names.held_out
    operation = rng.choice(OPERATIONS)
    while True:
        a, b, c = _operands(operation, rng)
        right = _answered(operation, a, b, c)
        if is_held_out(right.call.input) == held_out:
            break
    slots.set(a=str(a), b=str(b), c=str(c), r=right.result)
    new = rng.choice(("setup", "answer", "both")) if held_out else ""
    setup = rng.choice(slots.forms(f"{operation}.setup", held_out=new in ("setup", "both")))
    answer = rng.choice(slots.forms(f"{operation}.answer", held_out=new in ("answer", "both")))
    joint = rng.choice(_JOINTS)
    filled_setup = capitalise(expand(setup, slots.fill, rng))
    filled_answer = expand(answer + rng.choice(_TAILS), slots.fill, rng)
    if joint == ". ":
        filled_answer = capitalise(filled_answer)
    return Item(
        text=f"{filled_setup}{joint}{filled_answer}.",
        calls=(right,),
        wrong=(_wrong(operation, a, b, c, rng),),
        answers=((right.result,),),
    )
