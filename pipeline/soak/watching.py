"""`annotate` as a user starts it, watched from outside until it ends."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pipeline.rundir import DoneMark, RunDir
from pipeline.soak.configuration import run_below
from pipeline.soak.processes import ProcessTree, Reading
from tools.base import ToolformerError

_LOOK_S = 0.1  # for the end of the command, between two readings
_SHOWN_CHARACTERS = 600  # of what a command said that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A run that has ended well. `marks` are those of its units, in the order of their commits."""

    run: RunDir
    readings: list[Reading]
    marks: list[DoneMark]
    wall_s: float

    @property
    def documents(self) -> int:
        return sum(mark.documents for mark in self.marks)


def watched_annotate(
    configuration: Path, *, every_s: float = 2.0, address: str | None = None
) -> Watched:
    """Run `python -m pipeline annotate` and read its processes every `every_s` seconds.

    Raises:
        ToolformerError: it ends with an error; its last words are in the text.
    """
    run = RunDir(run_below(configuration.parent))
    arguments = ["annotate", str(configuration), "--no-dashboard"]
    if address is not None:
        arguments += ["--address", address]
    started, readings = time.perf_counter(), []
    with tempfile.TemporaryFile() as said, ray_files() as place:
        command = subprocess.Popen(
            [sys.executable, "-m", "pipeline", *arguments],
            env=os.environ | {"NO_COLOR": "1", "RAY_TMPDIR": place},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            tree, due = ProcessTree(command.pid), started
            while command.poll() is None:
                if time.perf_counter() >= due:
                    readings.append(tree.read())
                    due += every_s
                time.sleep(_LOOK_S)
        finally:
            command.terminate()
            command.wait()
        if command.returncode:
            said.seek(0)
            last_words = " ".join(said.read().decode(errors="replace")[-_SHOWN_CHARACTERS:].split())
            raise ToolformerError(f"{configuration}: annotate ended with an error: {last_words}")
    wall_s = time.perf_counter() - started
    marks = sorted(run.done_marks(), key=lambda mark: mark.finished_at)
    return Watched(run=run, readings=readings, marks=marks, wall_s=wall_s)


def ray_files() -> "tempfile.TemporaryDirectory[str]":
    """A place for Ray's files with a short name: the paths of its sockets are limited."""
    return tempfile.TemporaryDirectory(prefix="tf-soak-", dir="/tmp", ignore_cleanup_errors=True)
