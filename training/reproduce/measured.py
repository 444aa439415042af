"""What the steps of a reproduction measured, and comparisons on the same examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from training.benchmarks.statistics import DIFFERENCE, Performance, performance
from training.evaluate.answers import Answers, TextPerplexity
from training.evaluate.perplexity import (
    DocumentLosses,
    Ratio,
    perplexity_of,
    perplexity_ratio,
)
from training.evaluate.scores import Score, score
from training.reproduce.plan import PLAIN, TOOLFORMER

DISABLED = "Toolformer (disabled)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """C* of one size, from its build.json. Counts by tool; `examples_at` by tau_f as well."""

    documents: int
    calls: int
    tokens: int
    tokens_plain: int
    kept: Mapping[str, int]
    examples_at: Mapping[str, Mapping[str, int]]

    @property
    def share_in_calls(self) -> float:
        """Tokens of C* that are in calls, as a share of all."""
        return 1 - self.tokens_plain / self.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMeasured:
    """One size: what it made of C, and what the models that came of it did.

    `answers` are by model, k and benchmark, `losses` by model and corpus; the losses of
    Toolformer are those with calls disabled.
    """

    name: str
    parameters: int
    built: Built
    answers: Mapping[tuple[str, int, str], Answers]
    losses: Mapping[tuple[str, str], DocumentLosses]

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(benchmark for _, _, benchmark in self.answers))

    @property
    def corpora(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(corpus for _, corpus in self.losses))

    @property
    def ks(self) -> tuple[int, ...]:
        """The k that Toolformer was decoded with, in order."""
        return tuple(sorted({k for model, k, _ in self.answers if model == TOOLFORMER}))

    def of(self, model: str, benchmark: str) -> Answers:
        """The answers of a row of the paper's tables."""
        if model == DISABLED:
            return self.answers[TOOLFORMER, 0, benchmark]
        k = self.ks[-1] if model == TOOLFORMER else 0
        return self.answers[model, k, benchmark]

    def more_right(self, a: str, b: str, benchmarks: Sequence[str], *, seed: int) -> Performance:
        """How much more of the same examples, over all `benchmarks`, `a` has right than `b`."""
        return performance(self.differences(a, b, benchmarks), seed=seed, bounds=DIFFERENCE)

    def differences(self, a: str, b: str, benchmarks: Sequence[str]) -> list[int]:
        """For each example 1 where only `a` has it right, -1 where only `b` has, else 0."""
        return [
            int(right) - int(other)
            for benchmark in benchmarks
            for right, other in zip(
                self.of(a, benchmark).right(), self.of(b, benchmark).right(), strict=True
            )
        ]

    def more_calls(self, k: int, less: int, benchmark: str, *, seed: int) -> Performance:
        """How many more of the inputs have a call with `k` than with `less`."""
        with_k, with_less = (
            [
                bool(answer.tools_called)
                for answer in self.answers[TOOLFORMER, each, benchmark].answers
            ]
            for each in (k, less)
        )
        more = [int(a) - int(b) for a, b in zip(with_k, with_less, strict=True)]
        return performance(more, seed=seed, bounds=DIFFERENCE)

    def score(self, model: str, benchmark: str, *, seed: int, k: int | None = None) -> Score:
        """What is told of a row of the paper's tables; of Toolformer with another `k`."""
        answers = self.of(model, benchmark) if k is None else self.answers[model, k, benchmark]
        return score(answers, seed=seed)

    def perplexity(self, model: str, corpus: str, *, seed: int) -> TextPerplexity:
        """That of a row of Table 8, under the name it has there."""
        name = DISABLED if model == TOOLFORMER else model
        return perplexity_of(self.losses[model, corpus], name=name, corpus=corpus, seed=seed)

    def cost(self, corpus: str, *, seed: int) -> Ratio:
        """The perplexity of Toolformer with calls disabled in parts of that of base + CC."""
        return perplexity_ratio(
            self.losses[TOOLFORMER, corpus], self.losses[PLAIN, corpus], seed=seed
        )


def more_gain(
    large: SizeMeasured, small: SizeMeasured, benchmarks: Sequence[str], *, seed: int
) -> Performance:
    """How much more tools add for the larger model, on the same examples."""
    of_large, of_small = (
        size.differences(TOOLFORMER, DISABLED, benchmarks) for size in (large, small)
    )
    more = [a - b for a, b in zip(of_large, of_small, strict=True)]
    low, high = DIFFERENCE
    return performance(more, seed=seed, bounds=(low - high, high - low))
