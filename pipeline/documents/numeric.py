"""The numbers of a text, and whether one of them is computed from two others (Appendix A.1).

Shape suffixes: N numbers of a text, B numbers of a block, P ordered pairs of them, C pairs with a
third number beside their result.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

WINDOW_TOKENS = 100
MAX_NUMBERS = 2000  # of a text; further ones are not looked at
MAX_BLOCK_NUMBERS = 64  # of a block: bounds its B x B pairs
MAX_DIGITS = 15  # every integer of this length is exact in float64
# No part of a word (B12, 17th), of a version (1.2.3) or of a list without spaces (5,6,7).
_NUMBER = re.compile(
    r"(?<![0-9A-Za-z_])(?<![0-9][.,])"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|[0-9]*\.[0-9]+|[0-9]+)"
    r"(?![0-9A-Za-z_])(?![.,][0-9])"
)
# Of decimal fractions and of one operation; less than 1 for integers of MAX_DIGITS.
_RELATIVE_ERROR = 4 * np.finfo(np.float64).eps
_ROUNDING = np.array([0.0, 0.05, 0.005])  # half of the last place of 0, 1, 2 decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of a text in order: white-space token they stand in, magnitude, decimals."""

    token_N: NDArray[np.int64]
    value_N: NDArray[np.float64]
    decimals_N: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.token_N)

    def select(self, chosen: slice | NDArray[np.bool_]) -> "Numbers":
        return Numbers(
            token_N=self.token_N[chosen],
            value_N=self.value_N[chosen],
            decimals_N=self.decimals_N[chosen],
        )


def numbers(text: str) -> Numbers:
    """The first MAX_NUMBERS numbers of `text`, of at most MAX_DIGITS digits each.

    Signs are not read: if a + b = c or a - b = c holds with signs, then the magnitudes of the
    three fulfil one of the two in some order, and * and / hold for magnitudes as well.
    """
    found = list(islice(_mentions(text), MAX_NUMBERS))
    return Numbers(
        token_N=np.array([token for token, _ in found], dtype=np.int64),
        value_N=np.array([float(number) for _, number in found], dtype=np.float64),
        decimals_N=np.array([len(number.partition(".")[2]) for _, number in found], dtype=np.int64),
    )


def _mentions(text: str) -> Iterator[tuple[int, str]]:
    for index, token in enumerate(text.split()):
        for match in _NUMBER.finditer(token):
            number = match.group().replace(",", "")
            if len(number.replace(".", "")) <= MAX_DIGITS:
                yield index, number


def has_relation(found: Numbers, window: int = WINDOW_TOKENS) -> bool:
    """Whether a number is +, -, * or / of two others, all within fewer than `window` tokens.

    A sum or difference is exact. A product or quotient is exact, or rounded to the decimals c is
    written with if these are one or two. What holds for any number is no relation: 0 takes no
    part, nor does 1 in products and quotients (so neither a - a nor a / a counts).
    """
    found = found.select(found.value_N != 0)
    # Blocks of 2 * window tokens at every multiple of window: each span lies whole in one.
    for number in np.unique(found.token_N // window):
        begin, end = np.searchsorted(found.token_N, (number * window, (number + 2) * window))
        block = found.select(slice(begin, min(end, begin + MAX_BLOCK_NUMBERS)))
        if len(block) >= 3 and _block_has_relation(block, window):
            return True
    return False


def _block_has_relation(block: Numbers, window: int) -> bool:
    order = np.argsort(block.value_N, kind="stable")
    block = Numbers(
        token_N=block.token_N[order],
        value_N=block.value_N[order],
        decimals_N=block.decimals_N[order],
    )
    exact_B = np.zeros(len(block))
    rounding_B = _ROUNDING[np.where(block.decimals_N <= 2, block.decimals_N, 0)]
    factors = block.select(block.value_N != 1)
    factor_rounding_B = rounding_B[block.value_N != 1]
    return (
        _matches(block, np.add, exact_B, window)
        or _matches(block, np.subtract, exact_B, window)
        or _matches(factors, np.multiply, factor_rounding_B, window)
        or _matches(factors, np.divide, factor_rounding_B, window)
    )


def _matches(
    block: Numbers, operation: np.ufunc, rounding_B: NDArray[np.float64], window: int
) -> bool:
    """Whether a result of `operation` is another number of `block`, which is sorted by value."""
    if len(block) < 3:
        return False
    token_B, value_B = block.token_N, block.value_N
    near_BB = np.abs(token_B[:, None] - token_B[None, :]) < window
    np.fill_diagonal(near_BB, False)
    a_P, b_P = np.nonzero(near_BB)
    result_P = operation(value_B[a_P], value_B[b_P])
    error_P = _RELATIVE_ERROR * np.maximum(np.abs(result_P), np.maximum(value_B[a_P], value_B[b_P]))
    reach_P = rounding_B.max() + error_P
    first_P = np.searchsorted(value_B, result_P - reach_P, side="left")
    last_P = np.searchsorted(value_B, result_P + reach_P, side="right")
    pair_C = np.repeat(np.arange(len(a_P)), last_P - first_P)
    run_start_P = np.cumsum(last_P - first_P) - (last_P - first_P)
    c_C = np.arange(len(pair_C)) - run_start_P[pair_C] + first_P[pair_C]
    a_C, b_C = a_P[pair_C], b_P[pair_C]
    is_close_C = np.abs(result_P[pair_C] - value_B[c_C]) <= rounding_B[c_C] + error_P[pair_C]
    # a and b are near each other, so the span of the three is the largest of their distances.
    is_third_C = near_BB[c_C, a_C] & near_BB[c_C, b_C]
    return bool(np.any(is_close_C & is_third_C))
