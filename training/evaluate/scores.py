"""How well a model did on a benchmark, how sure that is, and how often it called tools."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from training.benchmarks.example import Example
from training.benchmarks.statistics import DIFFERENCE, Performance, performance, share_with_call
from training.evaluate.answers import Answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A model, decoded in one way, on the examples of a benchmark. Shares are of 1.

    An example with an error counts as wrong. `tools` has the share of inputs with a call of each
    tool that was called, and `calls` how many of its calls ended with each ToolStatus. `with_call`
    and `without_call` are the columns AC and NC of Table 9: None where there is no such example.
    `groups` are in the order of the benchmark. `skipped` counts what its files have and is not
    asked, by reason.
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
    calls: Mapping[str, Mapping[str, int]]
    with_call: Performance | None
    without_call: Performance | None
    groups: Mapping[str, Performance]
    skipped: Mapping[str, int]

    @property
    def all(self) -> Performance:
        """The performance on every example: the column All of Table 9."""
        return Performance(n=self.n, mean=self.mean, low=self.low, high=self.high)


def score(answers: Answers, *, seed: int) -> Score:
    """What `answers` come to; the same seed gives the same intervals.

    Raises:
        ValueError: there are no answers.
    """
    right = answers.right()
    called = [answer.tools_called for answer in answers.answers]
    by_group: dict[str, list[bool]] = {}
    by_call: dict[bool, list[bool]] = {}
    for answer, is_right in zip(answers.answers, right, strict=True):
        by_group.setdefault(answer.example.group, []).append(is_right)
        by_call.setdefault(bool(answer.tools_called), []).append(is_right)
    of_all = performance(right, seed=seed)
    split = {has_call: performance(of, seed=seed) for has_call, of in by_call.items()}
    return Score(
        model=answers.model,
        benchmark=answers.benchmark.name,
        api_top_k=answers.api_top_k,
        n=of_all.n,
        mean=of_all.mean,
        low=of_all.low,
        high=of_all.high,
        errors=sum(answer.error is not None for answer in answers.answers),
        share_with_call=len(by_call.get(True, [])) / of_all.n,
        tools=share_with_call(called),
        calls=_calls(answers),
        with_call=split.get(True),
        without_call=split.get(False),
        groups={group: performance(of, seed=seed) for group, of in by_group.items()},
        skipped=answers.benchmark.skipped,
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
        [is_right - right_b[example] for example, is_right in right_a.items()],
        seed=seed,
        bounds=DIFFERENCE,
    )


def _right_by_example(answers: Answers) -> dict[Example, bool]:
    pairs = zip(answers.answers, answers.right(), strict=True)
    return {answer.example: is_right for answer, is_right in pairs}


def _calls(answers: Answers) -> dict[str, dict[str, int]]:
    """How many calls of each tool ended with each status."""
    ended = Counter(
        pair
        for answer in answers.answers
        for pair in zip(answer.tools_called, answer.statuses, strict=True)
    )
    calls: dict[str, dict[str, int]] = {}
    for (tool, status), number in sorted(ended.items()):
        calls.setdefault(tool, {})[status] = number
    return calls
