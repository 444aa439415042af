"""The command line of the training room: python -m training."""

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pipeline.commandline import run_app
from tools.base import ConfigError
from training.chat_export.command import chat_export_command
from training.evaluate.command import evaluate_command
from training.finetune.command import finetune_command, memory_command
from training.generate.command import generate_command
from training.generate.measure_command import measure_command
from training.gpu_hours_command import gpu_hours_command
from training.harness.command import PASSED_ON, lm_eval_command
from training.reproduce.command import reproduce_command
from training.serve.command import serve_command
from training.tool_models.command import app as tool_models
from training.world.grammar import Forms
from training.world.sizes import Size

app = typer.Typer(
    help="The demo model and its world; finetuning, and generation with live tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

app.add_typer(tool_models, name="tool-models")
app.command("evaluate")(evaluate_command)
app.command("finetune")(finetune_command)
app.command("generate")(generate_command)
app.command("reproduce")(reproduce_command)
app.command("measure-generate")(measure_command)
app.command("serve")(serve_command)
app.command("memory")(memory_command)
app.command("chat-export")(chat_export_command)
app.command("gpu-hours")(gpu_hours_command)
app.command("lm-eval", context_settings=PASSED_ON)(lm_eval_command)

_PROMPTS = Path("pipeline/configs/demo_prompts")
_DEMO = Path("pipeline/demo")
PromptsOption = Annotated[
    Path, typer.Option(help="Folder with one prompt TOOL.txt per tool.", show_default=True)
]


@app.callback()
def _log_to_stderr(
    # DeepSpeed's launcher puts it before the command; it is in the environment as well.
    local_rank: Annotated[int, typer.Option("--local_rank", hidden=True)] = 0,
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


@app.command()
def world(
    out: Annotated[Path, typer.Option(help="Folder for the documents and the encyclopedia.")],
    documents: Annotated[int, typer.Option(min=1, help="How many documents.")] = 240,
    seed: Annotated[int, typer.Option(help="Of another world; 0 gives the demo's.")] = 0,
    forms: Annotated[
        Forms, typer.Option(help="Whether pretraining shows a model such names and forms.")
    ] = "held-out",
) -> None:
    """Write the demo documents and encyclopedia, or others; the same bytes every time."""
    from training.world.corpus import corpus_of, write_corpus

    corpus = corpus_of(forms, seed=seed, num_documents=documents)
    series = f"{forms}-{seed}"
    if forms == "held-out":
        series = f"world-{seed}" if seed else "demo"
    write_corpus(out, corpus, series)
    Console().print(
        f"{len(corpus.documents)} documents, {len(corpus.world.entities)} pages in {out}"
    )


@app.command()
def pretrain(
    out: Annotated[Path, typer.Option(help="Folder for the model, tokenizer and model card.")],
    size: Annotated[Size, typer.Option(help="How many layers, and how wide.")] = Size.LARGE,
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 0,
    prompts: PromptsOption = _PROMPTS,
) -> None:
    """Train the demo model on the synthetic world, on a CPU."""
    from training.pretrain import PretrainSettings
    from training.pretrain import pretrain as run

    defaults = PretrainSettings(size=size, seed=seed)
    settings = defaults if steps is None else replace(defaults, steps=steps)
    run(out, read_prompts(prompts), settings)


@app.command("measure-demo")
def measure_demo(
    model: Annotated[Path, typer.Option(help="Folder of the model.")] = _DEMO / "model",
    documents: Annotated[int, typer.Option(min=1, help="Held-out documents to measure on.")] = 240,
    seed: Annotated[int, typer.Option(help="Seed of the documents; 0 gives the demo's.")] = 0,
    write_card: Annotated[
        bool, typer.Option(help="Write the figures into the model's README.md.")
    ] = False,
    prompts: PromptsOption = _PROMPTS,
) -> None:
    """Measure positions, arguments and gains of a model on held-out documents."""
    from training.card import write_figures
    from training.world.corpus import held_out_corpus
    from training.world.measure import figures_table, load_meter

    corpus = held_out_corpus(seed=seed, num_documents=documents)
    figures = load_meter(model, read_prompts(prompts)).measure(corpus.documents)
    Console().print(figures_table(figures))
    if write_card:
        command = f"python -m training measure-demo --documents {documents} --seed {seed}"
        write_figures(model, figures, command)


def read_prompts(folder: Path) -> dict[str, str]:
    """The prompt of every demo tool.

    Raises ConfigError where a file is missing or does not hold {x} exactly once.
    """
    from training.world.examples import TOOLS

    prompts = {}
    for tool in TOOLS:
        path = folder / f"{tool}.txt"
        if not path.is_file():
            raise ConfigError(f"{path}: no such prompt; name the folder with --prompts")
        prompts[tool] = path.read_text(encoding="utf-8")
        if prompts[tool].count("{x}") != 1:
            raise ConfigError(f"{path}: a prompt holds {{x}} exactly once")
    return prompts


def main() -> None:
    """Runs the command line; errors meant for users are one line on stderr."""
    run_app(app)
