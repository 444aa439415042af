"""Configurations, answers and steps that tests make."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.settings import read_settings
from training.benchmarks.example import Benchmark, Example
from training.evaluate.answers import Answer, Answers
from training.evaluate.perplexity import DocumentLosses
from training.reproduce.config import ReproduceConfig
from training.reproduce.measured import Built, SizeMeasured
from training.reproduce.plan import BASE, PLAIN, TOOLFORMER, Step

SHIPPED = Path(__file__).resolve().parents[3] / "training" / "configs" / "reproduce.yaml"


def shipped(**changes: Any) -> ReproduceConfig:
    """The configuration of `make reproduce`, with changes; its models need not be there."""
    return read_settings(SHIPPED, ReproduceConfig, changes)


def python(name: str, statement: str) -> Step:
    """A step that runs a statement."""
    return Step(name=name, title=name, argv=("timeit", "-n", "1", "-r", "1", statement))


def answers(
    model: str, benchmark: str, k: int, right: Sequence[bool], called: Sequence[bool] | None = None
) -> Answers:
    """Answers that are right and have a call where the sequences say so."""
    examples = tuple(
        Example(id=str(n), prompt="?", answers=("yes",), group="all", date=dt.date(2020, 1, 1))
        for n in range(len(right))
    )
    return Answers(
        model=model,
        benchmark=Benchmark(
            name=benchmark, examples=examples, criterion="word_within_5", without_tools=(),
            skipped={},
        ),
        api_top_k=k,
        answers=tuple(
            Answer(
                example=example,
                completion="yes" if is_right else "no",
                tools_called=("QA",) if has_call else (),
                statuses=("ok",) if has_call else (),
                error=None,
            )
            for example, is_right, has_call in zip(
                examples, right, called or [k > 0] * len(right), strict=True
            )
        ),
    )  # fmt: skip


def losses(nats: Sequence[float], num_tokens: Sequence[int]) -> DocumentLosses:
    """Of documents without " ["."""
    return DocumentLosses(
        nats=tuple(nats), num_tokens=tuple(num_tokens), num_left_out=(0,) * len(nats)
    )


def size(
    name: str,
    found: Sequence[Answers],
    nats: Sequence[tuple[float, float]] = ((40.0, 40.0), (60.0, 60.0)),
    parameters: int = 1_000_000,
) -> SizeMeasured:
    """What was measured of a size. `nats` are of documents of 20 tokens: of C, then of C*."""
    plain, toolformer = zip(*nats, strict=True)
    return SizeMeasured(
        name=name,
        parameters=parameters,
        built=Built(
            documents=30, calls=40, tokens=1000, tokens_plain=750, kept={"QA": 40},
            examples_at={"QA": {"0.5": 30, "1.0": 20, "2.0": 5}},
        ),
        answers={(each.model, each.api_top_k, each.benchmark.name): each for each in found},
        losses={
            (model, "text"): losses(nats_of_each, [20] * len(nats))
            for model, nats_of_each in ((BASE, plain), (PLAIN, plain), (TOOLFORMER, toolformer))
        },
    )  # fmt: skip
