"""What a test disturbs: the driver of a run, a process of its own or a thread of this one."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.pipeline.demo_runs import pipeline_here


class Driver(Protocol):
    """The part of subprocess.Popen that tells whether a run has ended."""

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class DriverHere:
    """A command in a thread of this process, on the Ray it has joined.

    What it prints is in the files `printed` and `errors` once it has ended.
    """

    def __init__(self, arguments: Sequence[str], printed: Path, errors: Path) -> None:
        self._arguments, self._printed, self._errors = arguments, printed, errors
        self._code: int | None = None
        for path in (printed, errors):
            path.write_text("")
        # A daemon: a run that a failed test has left ends with its Ray.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        done = pipeline_here(*self._arguments, check=False)
        self._printed.write_text(done.stdout)
        self._errors.write_text(done.stderr)
        self._code = done.returncode

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(timeout)
        assert self._code is not None, "it has not ended, or not as a command does"
        return self._code
