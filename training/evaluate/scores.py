"""How well a model did on a benchmark, how sure that is, and how often it called tools."""

from collections.abc import Mapping
from dataclasses import dataclass

from training.benchmarks.example import Example
from training.benchmarks.statistics import Performance, calibration, performance, share_with_call
from training.evaluate.answers import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The share of `n` examples that is right, and its 95% bootstrap interval."""

    n: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A model, decoded in one way, on the examples of a benchmark. Shares are of 1.

    An example with an error counts as wrong. `tools` has the share of inputs with a call of each
    tool that was called. `with_call` and `without_call` are the columns AC and NC of Table 9: None
    where there is no such example. `groups` are in the order of the benchmark.
    """

    model: str
    benchmark: str
    api_top_k: int  # 0: calls are disabled
    n: int
    mean: float
    low: float  # of a 95% bootstrap interval
    high: float
    errors: int
    share_with_call: float
    tools: Mapping[str, float]
    with_call: Part | None
    without_call: Part | None
    groups: Mapping[str, Part]

    @property
    def all(self) -> Part:
        """The performance on every example: the column All of Table 9."""
        return Part(n=self.n, mean=self.mean, low=self.low, high=self.high)


def score(answers: Answers, *, seed: int) -> Score:
    """What `answers` come to; the same seed gives the same intervals.

    Raises:
        ValueError: there are no answers.
    """
    right = answers.right()
    called = [answer.tools_called for answer in answers.answers]
    row = calibration(answers.api_top_k, right, [bool(tools) for tools in called], seed=seed)
    by_group: dict[str, list[bool]] = {}
    for answer, is_right in zip(answers.answers, right, strict=True):
        by_group.setdefault(answer.example.group, []).append(is_right)
    return Score(
        model=answers.model,
        benchmark=answers.benchmark.name,
        api_top_k=answers.api_top_k,
        n=row.all.num_examples,
        mean=row.all.mean,
        low=row.all.low,
        high=row.all.high,
        errors=sum(answer.error is not None for answer in answers.answers),
        share_with_call=row.share_with_call,
        tools=share_with_call(called),
        with_call=None if row.with_call is None else _part(row.with_call),
        without_call=None if row.without_call is None else _part(row.without_call),
        groups={group: _part(performance(of, seed=seed)) for group, of in by_group.items()},
    )


def difference(a: Answers, b: Answers, *, seed: int) -> Performance:
    """How much more of the same examples `a` has right than `b`, from -1 to 1.

    Both were asked the same, so resamples draw examples with the answers of both: the interval is
    narrower than those of two scores side by side suggest.

    Raises:
        ValueError: there are no answers, or the examples differ.
    """
    right_a, right_b = _right_by_example(a), _right_by_example(b)
    if right_a.keys() != right_b.keys() or a.benchmark.criterion != b.benchmark.criterion:
        raise ValueError(
            f"{a.model} on {a.benchmark.name} and {b.model} on {b.benchmark.name} have to be asked "
            f"and judged alike: got {len(right_a):,} and {len(right_b):,} examples, of which "
            f"{len(right_a.keys() & right_b.keys()):,} are the same"
        )
    return performance(
        [is_right - right_b[example] for example, is_right in right_a.items()], seed=seed
    )


def _right_by_example(answers: Answers) -> dict[Example, bool]:
    pairs = zip(answers.answers, answers.right(), strict=True)
    return {answer.example: is_right for answer, is_right in pairs}


def _part(found: Performance) -> Part:
    return Part(n=found.num_examples, mean=found.mean, low=found.low, high=found.high)
