"""Performance with its uncertainty, and how often tools are called (Table 9).

Shape suffixes: N documents, B resamples.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NUM_RESAMPLES = 10_000
_DRAWN_AT_ONCE = 1_000_000  # values, over all resamples that are drawn together
_PERCENTILES = (2.5, 97.5)  # of a 95% interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The mean of `num_examples` values, and its 95% bootstrap interval."""

    mean: float
    low: float
    high: float
    num_examples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A row of Table 9, in shares of 1: None is the performance on no examples."""

    k: int
    all: Performance
    with_call: Performance | None  # AC
    without_call: Performance | None  # NC
    share_with_call: float


def performance(values: Sequence[float], *, seed: int) -> Performance:
    """The mean of `values` and its percentile bootstrap interval, the same for the same seed.

    A value is 0 or 1 for an example, or the difference between two models on it. Resamples are
    drawn as how often they hold each distinct value, which is the same and costs far less.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("the mean of no values")
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    num_examples = len(values)
    drawn = np.random.default_rng(seed).multinomial(
        num_examples, counts / num_examples, size=_NUM_RESAMPLES
    )
    low, high = np.percentile(drawn @ distinct / num_examples, _PERCENTILES)
    return Performance(
        mean=float(counts @ distinct / num_examples),
        low=float(low),
        high=float(high),
        num_examples=num_examples,
    )


def ratio_interval(
    above_N: NDArray[np.float64], below_N: NDArray[np.int64], *, seed: int
) -> tuple[float, float]:
    """The 95% percentile bootstrap interval of sum(above) / sum(below), the same for a seed.

    Such is the mean loss of a token, where documents are drawn, each with all its tokens.
    """
    generator, num = np.random.default_rng(seed), len(above_N)
    at_once = max(1, _DRAWN_AT_ONCE // num)
    ratios = []
    for start in range(0, _NUM_RESAMPLES, at_once):
        drawn_BN = generator.integers(num, size=(min(at_once, _NUM_RESAMPLES - start), num))
        ratios.append(above_N[drawn_BN].sum(axis=1) / below_N[drawn_BN].sum(axis=1))
    low, high = np.percentile(np.concatenate(ratios), _PERCENTILES)
    return float(low), float(high)


def calibration(
    k: int, right: Sequence[bool], has_call: Sequence[bool], *, seed: int
) -> Calibration:
    """The row of Table 9 for `k`, of what was right and where the model called a tool.

    Both sequences have an entry per example.

    Raises:
        ValueError: there are no examples, or the sequences differ in length.
    """
    pairs = list(zip(right, has_call, strict=True))
    with_call = [is_right for is_right, called in pairs if called]
    without_call = [is_right for is_right, called in pairs if not called]
    return Calibration(
        k=k,
        all=performance(right, seed=seed),
        with_call=performance(with_call, seed=seed) if with_call else None,
        without_call=performance(without_call, seed=seed) if without_call else None,
        share_with_call=len(with_call) / len(pairs),
    )


def share_with_call(tools_called: Sequence[Collection[str]]) -> dict[str, float]:
    """For each tool called, by name: the share of inputs that call it, once or more.

    `tools_called` has an entry per input: the tools of its calls. Nothing for no inputs.
    """
    tools = sorted({tool for called in tools_called for tool in called})
    return {
        tool: sum(tool in called for called in tools_called) / len(tools_called) for tool in tools
    }
