"""python -m training measure-generate: what tools change, on documents of the demo's world."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commandline import stdout
from training.generate.config import load_generate_config
from training.generate.growing_file import check_free
from training.world.grammar import Forms


def measure_command(
    config: Annotated[Path, typer.Argument(help="A configuration of a model with tools (YAML).")],
    model: Annotated[
        str | None, typer.Option(help="Another model: a directory, or a name on the Hub.")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(help="A model to compare with, which calls nothing; may be given again."),
    ] = None,
    documents: Annotated[int, typer.Option(min=1, help="How many documents.")] = 240,
    seed: Annotated[int, typer.Option(help="Of their world; 0 has the demo's encyclopedia.")] = 0,
    forms: Annotated[
        Forms, typer.Option(help="Whether pretraining shows a model such names and forms.")
    ] = "held-out",
    out: Annotated[Path | None, typer.Option(help="A file for the counts, as JSON.")] = None,
) -> None:
    """Measure calls and answers with tools, with calls disabled, and of other models.

    The tools of the configuration have to know the encyclopedia of the documents' world.
    """
    # What loads a model is imported where one is loaded: every command imports this file.
    from pipeline.tokens import TokenCodec
    from training.generate.measure import measure, scores_table, write_scores
    from training.world.answers import questions
    from training.world.corpus import corpus_of

    settings = load_generate_config(config, model=model)
    if out is not None:
        check_free(out)
    for path in baseline or ():
        TokenCodec.load(path)  # wrong ones are refused before the first model is measured
    asked = questions(corpus_of(forms, seed=seed, num_documents=documents).documents)
    scores = asyncio.run(measure(settings, asked, baseline or ()))
    stdout.print(scores_table(scores))
    if out is not None:
        about = {"model": settings.model.path, "documents": documents, "seed": seed, "forms": forms}
        write_scores(out, scores, about)
