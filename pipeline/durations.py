"""Lengths of time for people."""


def duration(seconds: float) -> str:
    """`seconds` in the unit that suits them: "0 s", "4.2 s", "42 s", "12 min", "3.5 h", "12 d"."""
    for limit, size, unit in ((99.5, 1, "s"), (99.5 * 60, 60, "min"), (72 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds / 86400)} d"


def _two_digits(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:,.0f}"
