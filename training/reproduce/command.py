"""python -m training reproduce: the paper in miniature."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commandline import stdout

_CONFIG = Path("training/configs/reproduce.yaml")


def reproduce_command(
    config: Annotated[
        Path, typer.Argument(help="Models, documents and steps (YAML).", show_default=True)
    ] = _CONFIG,
    samples: Annotated[
        Path | None, typer.Option(help="A folder with files of the paper's benchmarks.")
    ] = None,
) -> None:
    """Annotate, finetune and evaluate models of several sizes; continues what was interrupted."""
    # What loads torch is imported where it is needed: every command imports this file.
    from training.reproduce.config import load_reproduce_config
    from training.reproduce.reproduce import reproduce
    from training.reproduce.samples import samples_in

    for engines in ("pipeline.engines", "training.evaluate"):  # they say what they load
        logging.getLogger(engines).setLevel(logging.WARNING)
    settings = load_reproduce_config(config)
    given = {} if samples is None else samples_in(samples)
    command = "make reproduce" if config == _CONFIG else f"python -m training reproduce {config}"
    told = reproduce(settings, given, stdout, command=command)
    stdout.print(str(told), markup=False, highlight=False, soft_wrap=True)
