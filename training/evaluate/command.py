"""python -m training evaluate: models on benchmarks, as the paper asks and judges them."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commandline import stdout
from tools.base import ConfigError, ToolformerError


def evaluate_command(
    config: Annotated[Path, typer.Argument(help="What is evaluated on what (YAML).")],
    out: Annotated[
        Path | None, typer.Option(help="Another directory for answers and results.")
    ] = None,
    api_top_k: Annotated[
        str | None,
        typer.Option(help="Call where ' [' is among so many likeliest tokens: 0,1,3,10 (Table 9)."),
    ] = None,
    max_examples: Annotated[
        int | None, typer.Option(help="Of each benchmark, drawn from all of it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what endpoints cost.")] = False,
    address: Annotated[
        str | None, typer.Option(help="Tools' actors on this Ray cluster (host:port or auto).")
    ] = None,
) -> None:
    """Evaluate models on benchmarks; the same command again goes on where it was."""
    # What loads a model is imported where one is loaded: every command imports this file.
    from training.evaluate.config import load_evaluate_config
    from training.evaluate.results import results_tables
    from training.evaluate.run import evaluate

    changes = {"out": out, "api_top_k": _numbers(api_top_k), "max_examples": max_examples}
    given = {name: value for name, value in changes.items() if value is not None}
    settings = load_evaluate_config(config, **given)
    try:
        evaluation = evaluate(settings, stdout, yes=yes, address=address)
    except KeyboardInterrupt:
        raise ToolformerError("interrupted; the same command goes on") from None
    for table in results_tables(evaluation.results):
        stdout.print(table)
    asked, answers, errors = (
        evaluation.num_asked, evaluation.num_answers, evaluation.num_errors
    )  # fmt: skip
    told = f"{settings.out}: {answers:,} answers, {asked:,} of them asked for now"
    told += f"; {errors:,} with an error instead" if errors else ""
    stdout.print(told, markup=False, highlight=False, soft_wrap=True)


def _numbers(listed: str | None) -> list[int] | None:
    if listed is None:
        return None
    try:
        return [int(number) for number in listed.split(",")]
    except ValueError:
        raise ConfigError(f"--api-top-k {listed}: expected numbers, as in 0,1,3,10") from None
