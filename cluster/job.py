"""What a cluster is asked to do: commands of the pipeline, one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

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

    def commands(self, *, python: str = "python", address: str = "auto") -> list[list[str]]:
        """The command line of each step, on a node of the cluster at `address`."""
        return [
            [python, "-m", "pipeline", step, *self._arguments(step, address)] for step in self.steps
        ]

    def _arguments(self, step: Step, address: str) -> list[str]:
        if step is Step.ANNOTATE:
            return [str(self.config), "--address", address]
        return [str(self.run)]
