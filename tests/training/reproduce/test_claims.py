import math

import pytest

from tests.training.reproduce.made import answers, size
from training.reproduce.claims import Claim, claims
from training.reproduce.measured import DISABLED, SizeMeasured, more_gain
from training.reproduce.plan import BASE, PLAIN, TOOLFORMER

N = 200


def first(count: int) -> list[bool]:
    """The first `count` of N."""
    return [number < count for number in range(N)]


def measured(
    base: int,
    disabled: int,
    toolformer: int,
    calls: tuple[int, int] = (50, 190),
    name: str = "large",
    nats: tuple[tuple[float, float], ...] = ((40.0, 40.0), (60.0, 60.0)),
) -> SizeMeasured:
    return size(
        name,
        [
            answers(BASE, "facts", 0, first(base)),
            answers(PLAIN, "facts", 0, first(base)),
            answers(TOOLFORMER, "facts", 0, first(disabled)),
            answers(TOOLFORMER, "facts", 1, first(toolformer), first(calls[0])),
            answers(TOOLFORMER, "facts", 10, first(toolformer), first(calls[1])),
        ],
        nats,
    )


def of(
    base: int = 2,
    disabled: int = 2,
    toolformer: int = 100,
    calls: tuple[int, int] = (50, 190),
    nats: tuple[tuple[float, float], ...] = ((40.0, 40.0), (60.0, 60.0)),
) -> list[Claim]:
    """The claims of one size, that has so many of N right; `calls` are those at k = 1 and 10."""
    found = measured(base, disabled, toolformer, calls, nats=nats)
    return claims([found], ["facts"], ["facts"], seed=0)


def by_slug(found: list[Claim]) -> dict[str, Claim]:
    return {claim.slug: claim for claim in found}


def test_all_findings_show_where_they_are_plain() -> None:
    found = of()
    assert [claim.verdict for claim in found] == ["shows"] * 4
    helps = by_slug(found)["tools-help"].evidence[0]
    assert (helps.mean, helps.n) == (49.0, N)
    assert 41 < helps.low < 49 < helps.high < 57


def test_tools_do_not_help_where_chance_does_as_much() -> None:
    claim = by_slug(of(toolformer=5))["tools-help"]
    assert not claim.shows
    assert claim.reasons == ("facts: 95 % of the inputs have a call, 2.5 % are right.",)


@pytest.mark.parametrize(("disabled", "shows"), [(2, True), (8, False), (40, False)])
def test_disabled_is_like_base_where_the_whole_interval_is_near(disabled: int, shows: bool) -> None:
    """8 of 200 are 3 points more than 2: near, but the interval goes beyond 5 points."""
    claim = by_slug(of(disabled=disabled))["disabled-like-base"]
    assert claim.shows is shows
    assert bool(claim.reasons) is (disabled < 10)


def test_examples_that_all_agree_are_no_proof() -> None:
    """With 200 examples a difference in 1.5 % of them stays unseen in 5 % of cases."""
    found = measured(2, 2, 2, calls=(50, 50))
    unseen = pytest.approx(1 - 0.05 ** (1 / N))
    same = found.more_right(DISABLED, BASE, ["facts"], seed=0)
    assert same.mean == 0
    assert -same.low == same.high == unseen
    calls = found.more_calls(10, 1, "facts", seed=0)
    assert calls.mean == 0
    assert -calls.low == calls.high == unseen
    gain = more_gain(found, found, ["facts"], seed=0)
    assert gain.high == -gain.low == pytest.approx(2 * (1 - 0.05 ** (1 / N)))


def test_perplexity_costs_nothing_only_where_the_interval_says_so() -> None:
    """Documents of 20 tokens: 0.2 nats more are 1 % more perplexity."""
    same = by_slug(of())["no-perplexity-cost"]
    assert same.shows and not same.reasons
    more = by_slug(of(nats=((40.0, 41.0), (60.0, 61.0))))["no-perplexity-cost"]
    assert not more.shows
    assert more.evidence[0].mean == pytest.approx(math.exp(1 / 20))
    assert more.reasons[0].startswith("25 % of the tokens of C*")
    torn = by_slug(of(nats=((40.0, 44.0), (60.0, 56.0))))["no-perplexity-cost"]
    assert not torn.shows  # 1.00 on the whole, but it may be anything
    assert torn.evidence[0].mean == pytest.approx(1.0)


def test_larger_k_has_to_call_more_and_never_less() -> None:
    assert not by_slug(of(calls=(190, 190)))["more-calls-with-k"].shows
    claim = by_slug(of(calls=(50, 60)))["more-calls-with-k"]
    assert claim.shows
    assert claim.reasons == ("facts: 25 % at k = 1, 30 % at k = 10.",)


def test_larger_models_gain_more_is_asked_of_the_same_examples() -> None:
    small, large = measured(2, 2, 30, name="small"), measured(2, 2, 100)
    found = by_slug(claims([small, large], ["facts"], ["facts"], seed=0))
    evidence = found["larger-models-gain-more"].evidence[0]
    assert evidence.mean == 35.0
    assert evidence.decides
    assert found["larger-models-gain-more"].reasons == (
        "Tools add, in points over all tasks: 14.0 (small), 49.0 (large).",
    )
    turned = by_slug(claims([large, small], ["facts"], ["facts"], seed=0))
    assert not turned["larger-models-gain-more"].shows


def test_rows_of_the_tables_are_the_right_answers() -> None:
    found = measured(2, 3, 100)
    rights = [sum(found.of(row, "facts").right()) for row in (BASE, PLAIN, DISABLED, TOOLFORMER)]
    assert rights == [2, 2, 3, 100]
