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


SHARE, DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)  # what the value of an example lies between
_BY_CHANCE = 0.05  # as rarely as a mean lies outside of its interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The mean of the values of `n` examples, and its 95% bootstrap interval."""

    n: int
    mean: float
    low: float
    high: float


def performance(
    values: Sequence[float], *, seed: int, bounds: tuple[float, float] = SHARE
) -> Performance:
    """The mean of `values` and its percentile bootstrap interval, the same for the same seed.

    A value is 0 or 1 for an example, or with other `bounds` the difference between two models on
    it. Resamples are drawn as how often they hold each distinct value, which is the same and costs
    far less. Resamples of values that are all the same are the same as well, however few they are:
    then the interval is that in which so many would agree by chance in 5 % of cases.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("the mean of no values")
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    n = len(values)
    mean = float(counts @ distinct / n)
    if len(distinct) == 1:
        unseen = 1 - _BY_CHANCE ** (1 / n)  # the share of others that n draws miss that often
        low, high = (mean + unseen * (bound - mean) for bound in bounds)
    else:
        drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=_NUM_RESAMPLES)
        low, high = np.percentile(drawn @ distinct / n, _PERCENTILES)
    return Performance(n=n, mean=mean, low=float(low), high=float(high))


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


def share_with_call(tools_called: Sequence[Collection[str]]) -> dict[str, float]:
    """For each tool called, by name: the share of inputs that call it, once or more.

    `tools_called` has an entry per input: the tools of its calls. Nothing for no inputs.
    """
    tools = sorted({tool for called in tools_called for tool in called})
    return {
        tool: sum(tool in called for called in tools_called) / len(tools_called) for tool in tools
    }
