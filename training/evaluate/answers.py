"""What models made of a benchmark: between what asks them and what scores, draws and tells it."""

from dataclasses import dataclass

from training.benchmarks.example import Benchmark, Example
from training.benchmarks.judging import is_right


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's completion of an example, without its calls; None where `error` says why not.

    `tools_called` are the tools of its calls, in order, and `statuses` how each ended, as
    ToolStatus has it.
    """

    example: Example
    completion: str | None
    tools_called: tuple[str, ...]
    error: str | None
    statuses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """One for each example of a benchmark, in its order, of one model decoded in one way."""

    model: str  # as the configuration calls it
    benchmark: Benchmark
    api_top_k: int  # 0: calls are disabled
    answers: tuple[Answer, ...]

    def right(self) -> list[bool]:
        """For each example, whether it is right as the paper judges; not without a completion."""
        return [
            answer.completion is not None
            and is_right(answer.completion, answer.example, self.benchmark.criterion)
            for answer in self.answers
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPerplexity:
    """The perplexity of a model on a corpus of plain text, no token of which begins a call."""

    model: str
    corpus: str
    perplexity: float
    low: float  # of a 95% bootstrap interval over documents
    high: float
    num_documents: int
    num_tokens: int  # that count
