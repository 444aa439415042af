"""Answers and scores as they might have been."""

from collections.abc import Sequence

from training.benchmarks.example import Benchmark, Example
from training.benchmarks.statistics import Performance
from training.evaluate.answers import Answer, Answers
from training.evaluate.scores import Score

WRONG, RIGHT, FAILED = "8", "7", None


def answers(
    completions: Sequence[str | None],
    *,
    called: Sequence[tuple[str, ...]] | None = None,
    statuses: Sequence[tuple[str, ...]] | None = None,
    groups: str = "",
    skipped: dict[str, int] | None = None,
    model: str = "A",
    benchmark: str = "asdiv",
    api_top_k: int = 10,
) -> Answers:
    """One for each of `completions`; the right number is 7. `groups` has a letter for each."""
    examples = [
        Example(id=str(at), prompt="It is", answers=(RIGHT,), group=groups[at] if groups else "all")
        for at in range(len(completions))
    ]
    return Answers(
        model=model,
        benchmark=Benchmark(
            name=benchmark,
            examples=tuple(examples),
            criterion="number",
            without_tools=(),
            skipped=skipped or {},
        ),
        api_top_k=api_top_k,
        answers=tuple(
            Answer(
                example=example,
                completion=completion,
                tools_called=called[at] if called else (),
                statuses=statuses[at] if statuses else ("ok",) * len(called[at] if called else ()),
                error="no answer within 30 s" if completion is None else None,
            )
            for at, (example, completion) in enumerate(zip(examples, completions, strict=True))
        ),
    )


def made_score(
    model: str,
    benchmark: str,
    mean: float,
    *,
    api_top_k: int = 0,
    n: int = 200,
    errors: int = 0,
    tools: dict[str, float] | None = None,
    calls: dict[str, dict[str, int]] | None = None,
    skipped: dict[str, int] | None = None,
    groups: dict[str, Performance] | None = None,
) -> Score:
    """A score with an interval of 0.05 to either side; with a k, half of the inputs have a call."""
    part = made_part(mean, n=n)
    return Score(
        model=model,
        benchmark=benchmark,
        api_top_k=api_top_k,
        n=n,
        mean=part.mean,
        low=part.low,
        high=part.high,
        errors=errors,
        share_with_call=0.5 if api_top_k else 0.0,
        tools=tools or {},
        calls=calls or {},
        skipped=skipped or {},
        with_call=made_part(mean, n=n // 2) if api_top_k else None,
        without_call=made_part(mean, n=n // 2 if api_top_k else n),
        groups=groups or {"all": part},
    )


def made_part(mean: float, *, n: int = 100) -> Performance:
    return Performance(n=n, mean=mean, low=max(0.0, mean - 0.05), high=min(1.0, mean + 0.05))
