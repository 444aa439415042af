"""What a cluster is asked to do: commands of the pipeline and of training, one after the other."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pipeline.config import load_config
from tools.base import ConfigError
from tools.places import Place, absolute
from training.finetune.config import FinetuneConfig, load_finetune_config


class Step(StrEnum):
    """A command of the pipeline, or the one of training that follows them."""

    ANNOTATE = "annotate"
    BUILD = "build"
    REPORT = "report"
    FINETUNE = "finetune"


STEPS = (Step.ANNOTATE, Step.BUILD, Step.REPORT)  # if nothing else is said


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The steps of one run, in the order they are given."""

    config: Path  # of the run
    run: Place  # its directory, as the configuration says
    steps: Sequence[Step] = STEPS
    finetune: Path | None = None  # the configuration of the step of this name

    @classmethod
    def of(cls, config: Path, steps: Sequence[Step] = STEPS, finetune: Path | None = None) -> "Job":
        """The job of the run that the YAML file `config` describes, and of its finetuning.

        Raises:
            ConfigError: a file is missing or is not YAML, or a key is unknown or wrong; there is
                a step of finetuning without a configuration or the other way round, or it is of
                another run.
        """
        run = load_config(config).run
        if (finetune is None) == (Step.FINETUNE in steps):
            raise ConfigError("--steps with finetune and --finetune FINETUNE.yaml go together")
        job = cls(config=config, run=run, steps=steps, finetune=finetune)
        training = job.finetuning()
        if training is not None and absolute(training.run) != absolute(run):
            raise ConfigError(
                f"{finetune}: run: {training.run} is another than that of {config}, {run}"
            )
        return job

    def finetuning(self) -> FinetuneConfig | None:
        """What the configuration of the finetuning says, if there is one."""
        return None if self.finetune is None else load_finetune_config(self.finetune)

    def commands(
        self, *, fixed: bool, python: str = "python", address: str = "auto"
    ) -> list[list[str]]:
        """The command line of each step, on a node of the cluster at `address`.

        What does not fit a `fixed` cluster is refused; another may grow, and is waited for.
        """
        where = ["--address", address, *(["--fixed-cluster"] if fixed else [])]
        of_step = {
            Step.ANNOTATE: ["pipeline", "annotate", str(self.config), *where],
            Step.BUILD: ["pipeline", "build", str(self.run)],
            Step.REPORT: ["pipeline", "report", str(self.run)],
            Step.FINETUNE: ["training", "finetune", str(self.finetune), *where],
        }
        return [[python, "-m", *of_step[step]] for step in self.steps]

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
Steps = Annotated[
    str, typer.Option(help="Which commands, in this order; finetune is one more of them.")
]
Finetune = Annotated[
    Path | None,
    typer.Option(
        help="Of the step finetune: a finetuning configuration (YAML).", metavar="FINETUNE.yaml"
    ),
]
DEFAULT_STEPS = ",".join(STEPS)
