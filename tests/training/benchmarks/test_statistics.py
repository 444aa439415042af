import math

import numpy as np
import pytest

from training.benchmarks.statistics import (
    DIFFERENCE,
    performance,
    ratio_interval,
    share_with_call,
)


def test_the_mean_and_the_number_are_those_of_the_values() -> None:
    found = performance([1, 0, 0, 1, 1, -1], seed=0, bounds=DIFFERENCE)
    assert found.mean == pytest.approx(2 / 6)
    assert found.n == 6
    assert found.low <= found.mean <= found.high


def test_the_interval_is_that_of_drawing_examples_one_by_one() -> None:
    values = np.array([1.0] * 30 + [0.0] * 60 + [-1.0] * 10)
    rng = np.random.default_rng(7)
    means = rng.choice(values, size=(4000, values.size)).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    found = performance(values.tolist(), seed=0)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.011)
    assert high - low > 0.2


def test_the_interval_narrows_with_the_root_of_the_number() -> None:
    few = performance([True, False] * 50, seed=0)
    many = performance([True, False] * 5000, seed=0)
    assert (few.high - few.low) / (many.high - many.low) == pytest.approx(10, rel=0.05)


def test_the_seed_alone_decides_the_interval() -> None:
    values = [1.0, 0.25, 0.5, 0.125, 0.75] * 7
    assert performance(values, seed=3) == performance(values, seed=3)
    assert performance(values, seed=3) == performance(values[::-1], seed=3)
    assert performance(values, seed=3) != performance(values, seed=4)


def test_equal_values_are_as_sure_as_they_are_many() -> None:
    """Where 26 % are wrong, ten of ten are right in 5 % of cases: 0.74 ** 10 = 0.05."""
    found = performance([True] * 10, seed=0)
    assert (found.mean, found.high) == (1, 1)
    assert found.low == pytest.approx(0.741, abs=5e-4)
    none = performance([False] * 10, seed=0)
    assert (none.mean, none.low) == (0, 0) and none.high == pytest.approx(1 - found.low)
    assert performance([True], seed=0).low == pytest.approx(0.05)
    assert performance([0] * 1000, seed=0).high == pytest.approx(0.003, abs=1e-5)


def test_equal_differences_are_unsure_to_both_sides() -> None:
    same = performance([0] * 10, seed=0, bounds=DIFFERENCE)
    assert (same.low, same.high) == pytest.approx((-0.2589, 0.2589), abs=1e-4)
    more = performance([1] * 10, seed=0, bounds=DIFFERENCE)
    assert more.low == pytest.approx(1 - 2 * 0.2589, abs=1e-4) and more.high == 1


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        performance([], seed=0)


def test_an_input_counts_once_for_each_tool_it_calls() -> None:
    calls = [["QA", "QA"], [], ["Calculator"], ["QA", "Calculator"], ["QA"]]
    assert share_with_call(calls) == {"Calculator": 0.4, "QA": 0.6}
    assert share_with_call([]) == {}


def test_the_interval_of_a_ratio_is_that_of_all_resamples() -> None:
    """Two documents have four resamples: the short one twice, both (in two orders), the long."""
    nats_N, tokens_N = np.array([10.0, 90.0]), np.array([10, 30])
    means = [1.0, 100 / 40, 100 / 40, 3.0]
    expected = np.percentile(np.repeat(means, 1000), (2.5, 97.5))
    assert ratio_interval(nats_N, tokens_N, seed=0) == pytest.approx(tuple(expected))


def test_the_interval_of_a_ratio_is_as_wide_as_the_spread_says() -> None:
    """1.96 standard errors of a ratio to each side, where long documents have lower losses."""
    draw = np.random.default_rng(1)
    tokens_N = draw.integers(20, 200, size=400)
    nats_N = tokens_N * (4 - tokens_N / 100 + draw.normal(0, 0.4, size=400))
    low, high = ratio_interval(nats_N, tokens_N, seed=0)
    mean = nats_N.sum() / tokens_N.sum()
    error = math.sqrt(((nats_N - mean * tokens_N) ** 2).sum()) / tokens_N.sum()
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.1 * error)
    assert ratio_interval(nats_N, tokens_N, seed=0) == (low, high)
    assert ratio_interval(nats_N, tokens_N, seed=1) != (low, high)
