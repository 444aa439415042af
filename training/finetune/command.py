"""python -m training finetune, and python -m training memory.

A launcher runs the same command in every process, and says which it is in the environment.
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from upath import UPath

from pipeline.commandline import stdout
from tools.base import ConfigError, ToolformerError
from tools.places import place
from training.finetune.config import DatasetName, FinetuneConfig, load_finetune_config
from training.finetune.memory import GPT_J_6B

if TYPE_CHECKING:
    from training.finetune.finetune import Outcome

_LATER_S = 3.0  # a launcher has ended the others by then


def finetune_command(
    config: Annotated[Path, typer.Argument(help="A finetuning configuration (YAML).")],
    run: Annotated[
        UPath | None, typer.Option(parser=place, help="Another run.", metavar="PATH")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Another directory for the model.")] = None,
    dataset: Annotated[
        DatasetName | None, typer.Option(help="C*, or the same documents without calls.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the choice and order of examples.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="As for a trial.")] = None,
    address: Annotated[
        str | None,
        typer.Option(help="Run on this Ray cluster (host:port or auto), by Ray Train."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="With --address: processes; one for each GPU, or each node."),
    ] = None,
    gpus_per_worker: Annotated[
        float | None, typer.Option(min=0, help="With --address; 1 where there are GPUs.")
    ] = None,
    cpus_per_worker: Annotated[float, typer.Option(min=0.1, help="With --address.")] = 1.0,
    fixed_cluster: Annotated[
        bool,
        typer.Option("--fixed-cluster", help="Refuse what does not fit: the cluster cannot grow."),
    ] = False,
) -> None:
    """Finetune a model on a run's C*; continues what was interrupted."""
    rank = int(os.environ.get("RANK", "0"))
    settings = _settings(
        config, rank, run=run, out=out, dataset=dataset, seed=seed, max_steps=max_steps
    )
    if address is None:
        if workers is not None or gpus_per_worker is not None:
            raise ConfigError("--workers and --gpus-per-worker are of a Ray cluster: --address")
        outcome = _finetune(settings, rank)
    else:
        from training.finetune.launch_ray import Workers
        from training.finetune.ray_train import finetune_on_ray

        outcome = finetune_on_ray(
            settings,
            Workers(number=workers, gpus=gpus_per_worker, cpus=cpus_per_worker),
            address=address,
            fixed_cluster=fixed_cluster,
            console=stdout,
        )
    if rank == 0:
        _say(outcome)


def memory_command(
    model: Annotated[
        str, typer.Argument(help=f"A model directory, a name on the Hub, or {GPT_J_6B}.")
    ] = GPT_J_6B,
    gpu_gib: Annotated[float, typer.Option(min=1, help="Memory of a GPU.")] = 40.0,
) -> None:
    """What ZeRO needs for a model's states on a GPU and a host, by DeepSpeed's estimators."""
    from training.finetune.memory import count_parameters, memory_table

    stdout.print(memory_table(model, count_parameters(model), gpu_gib=gpu_gib))


def _settings(path: Path, rank: int, **changes: object) -> FinetuneConfig:
    try:
        return load_finetune_config(path, **changes)
    except ConfigError as error:
        if rank == 0:
            raise
        # All processes read the same file: one of them says what is wrong with it.
        time.sleep(_LATER_S)
        raise ConfigError(f"rank {rank}: {error}") from None


def _finetune(config: FinetuneConfig, rank: int) -> "Outcome":
    # Read when torch is loaded: its C++ part shows a stack where another process has ended.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from training.finetune.finetune import finetune
    from training.finetune.ranks import AnotherFailed, ProcessLost

    try:
        return finetune(config, console=stdout if rank == 0 else None)
    except AnotherFailed:
        raise typer.Exit(1) from None
    except ProcessLost as error:
        raise ToolformerError(str(error)) from None


def _say(outcome: "Outcome") -> None:
    best = outcome.best
    stdout.print(
        f"{outcome.model}: {'was finished before; ' if outcome.was_finished else ''}perplexity "
        f"{best.perplexity:.3f} after step {best.step:,}, {outcome.before.perplexity:.3f} before",
        markup=False, highlight=False, soft_wrap=True,
    )  # fmt: skip
