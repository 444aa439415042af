"""What a benchmark asks a model to complete, and what counts as right."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal

# How a completion is judged; see training/benchmarks/judging.py.
Criterion = Literal["word_within_5", "number", "answer_within_20", "answer_within_10"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One input. Any of `answers` is right.

    `group` is the part of the benchmark it belongs to: a relation, a language, a template.
    `date` is the day the Calendar is told, where the benchmark has one.
    """

    id: str  # unique in its benchmark, and the same on every machine
    prompt: str
    answers: tuple[str, ...]
    group: str
    date: dt.date | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Examples that are judged alike.

    `skipped` counts what its files have and the paper leaves out, by reason. `without_tools` are
    those that the paper forbids here (sections 4.2.1 and 4.2.3).
    """

    name: str
    examples: tuple[Example, ...]
    criterion: Criterion
    without_tools: tuple[str, ...]
    skipped: dict[str, int]
