"""What a cluster is asked to do: commands of the pipeline, one after the other."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipeline.config import load_config
from tools.places import Place


class Step(StrEnum):
    """A command of the pipeline."""

    ANNOTATE = "annotate"
    BUILD = "build"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The steps of one run, in the order they are given."""

    config: Path  # of the run
    run: Place  # its directory, as the configuration says
    steps: Sequence[Step] = tuple(Step)

    @classmethod
    def of(cls, config: Path, steps: Sequence[Step] = tuple(Step)) -> "Job":
        """The job of the run that the YAML file `config` describes.

        Raises:
            ConfigError: the file is missing or is not YAML, or a key is unknown or wrong.
        """
        return cls(config=config, run=load_config(config).run, steps=steps)

    def commands(
        self, *, fixed: bool, python: str = "python", address: str = "auto"
    ) -> list[list[str]]:
        """The command line of each step, on a node of the cluster at `address`.

        What does not fit a `fixed` cluster is refused; another may grow, and is waited for.
        """
        where = ["--address", address, *(["--fixed-cluster"] if fixed else [])]
        return [
            [python, "-m", "pipeline", step, str(self.config), *where]
            if step is Step.ANNOTATE
            else [python, "-m", "pipeline", step, str(self.run)]
            for step in self.steps
        ]

    def shell_lines(self, *, fixed: bool) -> list[str]:
        """The steps for a shell, a line for each: what fails is named, and ends the shell.

        Each takes the cluster that RAY_ADDRESS names.
        """
        return [
            f"{shlex.join(command)} || {{ code=$?; echo {_ended(step)} >&2; exit $code; }}"
            for step, command in zip(self.steps, self.commands(fixed=fixed), strict=True)
        ]


def _ended(step: Step) -> str:
    return f'"error: step {step} ended with exit code $code"'


def parse_steps(text: str) -> tuple[Step, ...]:
    """The steps that `text` names, as annotate,build,report."""
    try:
        return tuple(Step(name.strip()) for name in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} names no steps: expected some of {','.join(Step)}"
        ) from None


# Of every launcher's command line.
Config = Annotated[Path, typer.Argument(help="A run configuration (YAML).", metavar="RUN.yaml")]
Steps = Annotated[str, typer.Option(help="Which commands of the pipeline, in this order.")]
ALL_STEPS = ",".join(Step)
