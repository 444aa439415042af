"""python -m training gpu-hours: what a study will take of GPUs, before it is begun."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commandline import stdout


def gpu_hours_command(
    annotate: Annotated[Path, typer.Option(help="Configuration of the annotation.")] = Path(
        "pipeline/configs/paper.yaml"
    ),
    finetune: Annotated[Path, typer.Option(help="Configuration of the finetuning.")] = Path(
        "training/configs/finetune-paper.yaml"
    ),
    evaluate: Annotated[Path, typer.Option(help="Configuration of the evaluation.")] = Path(
        "training/configs/evaluate-paper.yaml"
    ),
    documents: Annotated[
        int, typer.Option(min=1, help="How many are offered to each tool; see pipeline plan.")
    ] = 1_000_000,
    document_tokens: Annotated[int, typer.Option(min=1, help="Of a document, on average.")] = 500,
    bench: Annotated[
        Path | None,
        typer.Option(help="What `pipeline bench --json` measured on a GPU; else estimates."),
    ] = None,
) -> None:
    """GPU-hours of annotating, finetuning and evaluating, from the speed of a GPU."""
    # What reads benchmarks is imported where it is used: every command imports this file.
    from pipeline.config import load_config
    from training.evaluate.config import load_evaluate_config
    from training.finetune.config import load_finetune_config
    from training.gpu_hours import (
        ESTIMATED,
        annotation_hours,
        evaluation_hours,
        finetuning_hours,
        hours_table,
        missing_benchmarks,
        read_rates,
    )

    rates = ESTIMATED if bench is None else read_rates(bench)
    run = load_config(annotate)
    hours = annotation_hours(run, rates, documents=documents, document_tokens=document_tokens)
    hours += finetuning_hours(load_finetune_config(finetune), rates)
    evaluation = load_evaluate_config(evaluate)
    hours += evaluation_hours(evaluation, rates)
    stdout.print(hours_table(hours, rates, uncounted=missing_benchmarks(evaluation)))
