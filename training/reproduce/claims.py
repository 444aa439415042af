"""The paper's findings, each decided by what was measured here.

A finding shows where a 95% interval says so; else it does not, and the text says what was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from training.benchmarks.statistics import Performance
from training.reproduce.measured import DISABLED, SizeMeasured, more_gain
from training.reproduce.plan import BASE, PLAIN, TOOLFORMER

NEAR = 0.05  # "about the same": the interval of a difference lies within so much of 0
NO_COST = 1.01  # "no cost": the paper prints perplexities to 0.1 in 10.5, about 1 %
_CANNOT_KNOW = 0.05  # who has fewer right cannot do a task


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A measured number with its 95% interval, of `n` examples or documents, in `unit`."""

    about: str
    mean: float
    low: float
    high: float
    n: int
    unit: str
    decides: bool  # whether it is as the finding says


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A finding of the paper. `reasons` are what else was measured that bears on it."""

    slug: str
    finding: str
    source: str  # where in the paper
    rule: str  # when it shows
    evidence: tuple[Evidence, ...]
    reasons: tuple[str, ...] = ()

    @property
    def shows(self) -> bool:
        return all(each.decides for each in self.evidence)

    @property
    def verdict(self) -> str:
        return "shows" if self.shows else "does not show"


def claims(
    sizes: Sequence[SizeMeasured], benchmarks: Sequence[str], ks_of: Sequence[str], *, seed: int
) -> list[Claim]:
    """The findings; of the largest of `sizes`, which are in order, but for the last.

    `benchmarks` have a tool each that helps; `ks_of` are those that Table 9 is told of.
    """
    largest = sizes[-1]
    found = [
        _tools_help(largest, benchmarks, seed),
        _disabled_is_like_base(largest, benchmarks, seed),
        _no_cost(largest, seed),
    ]
    if len(largest.ks) > 2:
        found.append(_more_calls(largest, ks_of, seed))
    if len(sizes) > 1:
        found.append(_larger_gain_more(sizes, benchmarks, seed))
    return found


def _tools_help(size: SizeMeasured, benchmarks: Sequence[str], seed: int) -> Claim:
    evidence, reasons = [], []
    for benchmark in benchmarks:
        more = size.more_right(TOOLFORMER, DISABLED, [benchmark], seed=seed)
        evidence.append(_points(benchmark, more, decides=more.low > 0))
        if more.low <= 0:
            told = size.score(TOOLFORMER, benchmark, seed=seed)
            reasons.append(
                f"{benchmark}: {_percent(told.share_with_call)} of the inputs have a call, "
                f"{_percent(told.mean)} are right."
            )
    return Claim(
        slug="tools-help",
        finding="Toolformer does better than the same model with calls disabled.",
        source="section 4.2, Tables 3 to 7",
        rule="in every task the interval of the difference lies above 0",
        evidence=tuple(evidence),
        reasons=tuple(reasons),
    )


def _disabled_is_like_base(size: SizeMeasured, benchmarks: Sequence[str], seed: int) -> Claim:
    evidence, low_in = [], []
    for benchmark in benchmarks:
        more = size.more_right(DISABLED, BASE, [benchmark], seed=seed)
        evidence.append(_points(benchmark, more, decides=more.low > -NEAR and more.high < NEAR))
        scores = [size.score(model, benchmark, seed=seed).mean for model in (DISABLED, BASE)]
        if max(scores) < _CANNOT_KNOW:
            low_in.append(benchmark)
    reasons: tuple[str, ...] = ()
    if low_in:
        reasons = (
            f"Both have less than {_percent(_CANNOT_KNOW)} right in {', '.join(low_in)}: names, "
            "numbers, days and phrases there are held out of all they learned from.",
        )
    return Claim(
        slug="disabled-like-base",
        finding="With calls disabled it does about as well as the model it was made of.",
        source="section 4.2, Tables 3 to 7",
        rule=f"in every task the interval of the difference lies within {100 * NEAR:g} points of 0",
        evidence=tuple(evidence),
        reasons=reasons,
    )


def _no_cost(size: SizeMeasured, seed: int) -> Claim:
    evidence = []
    for corpus in size.corpora:
        cost = size.cost(corpus, seed=seed)
        evidence.append(
            Evidence(
                about=corpus,
                mean=cost.ratio,
                low=cost.low,
                high=cost.high,
                n=cost.num_documents,
                unit=f"of the perplexity of {PLAIN}",
                decides=cost.high <= NO_COST,
            )
        )
    reasons = (
        f"{_percent(size.built.share_in_calls)} of the tokens of C*, which it learns from, are in "
        "calls; what stands behind a call it learns with the result before it.",
    )
    return Claim(
        slug="no-perplexity-cost",
        finding="Learning to call tools costs no perplexity when calls are disabled.",
        source="section 4.3, Table 8",
        rule=f"on every corpus the interval of the ratio lies below {NO_COST:g}",
        evidence=tuple(evidence),
        reasons=() if all(each.decides for each in evidence) else reasons,
    )


def _more_calls(size: SizeMeasured, benchmarks: Sequence[str], seed: int) -> Claim:
    ks = [k for k in size.ks if k]
    evidence, reasons = [], []
    for benchmark in benchmarks:
        shares = [size.score(TOOLFORMER, benchmark, seed=seed, k=k).share_with_call for k in ks]
        more = size.more_calls(ks[-1], ks[0], benchmark, seed=seed)
        never_fewer = shares == sorted(shares)
        evidence.append(
            _points(
                f"{benchmark}, k = {ks[-1]} and {ks[0]}", more,
                decides=more.low > 0 and never_fewer,
            )
        )  # fmt: skip
        told = ", ".join(
            f"{_percent(share)} at k = {k}" for k, share in zip(ks, shares, strict=True)
        )
        reasons.append(f"{benchmark}: {told}.")
    return Claim(
        slug="more-calls-with-k",
        finding="The larger k, the more inputs have a call.",
        source="section 5, Table 9",
        rule="the interval of the difference between the largest k and the smallest lies above 0, "
        "and no k has fewer calls than a smaller one",
        evidence=tuple(evidence),
        reasons=tuple(reasons),
    )


def _larger_gain_more(sizes: Sequence[SizeMeasured], benchmarks: Sequence[str], seed: int) -> Claim:
    more = more_gain(sizes[-1], sizes[0], benchmarks, seed=seed)
    gains = [size.more_right(TOOLFORMER, DISABLED, benchmarks, seed=seed) for size in sizes]
    told = ", ".join(
        f"{_number(gain.mean)} ({size.name})" for size, gain in zip(sizes, gains, strict=True)
    )
    return Claim(
        slug="larger-models-gain-more",
        finding="Larger models make better use of tools.",
        source="section 4.4, Figure 4",
        rule="the interval of how much more tools add for the largest than for the smallest lies "
        "above 0",
        evidence=(
            _points(f"{sizes[-1].name} and {sizes[0].name}, all tasks", more, decides=more.low > 0),
        ),
        reasons=(f"Tools add, in points over all tasks: {told}.",),
    )


def _points(about: str, more: Performance, *, decides: bool) -> Evidence:
    return Evidence(
        about=about,
        mean=100 * more.mean,
        low=100 * more.low,
        high=100 * more.high,
        n=more.n,
        unit="points",
        decides=decides,
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _number(share: float) -> str:
    return f"{100 * share:.1f}"
