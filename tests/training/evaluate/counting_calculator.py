"""The Calculator, which notes what it is asked, and once sends its process a signal."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tools.base import ToolRequest, ToolResult
from tools.calculator import Calculator


class CountingCalculator:
    name = "Calculator"
    version = "1"

    def __init__(self, *, directory: str, after: int, sends: str) -> None:
        self._asked, self._sent = Path(directory) / "asked", Path(directory) / "sent"
        self._after, self._signal = after, signal.Signals[sends]
        self._calculator = Calculator()

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        with self._asked.open("a") as asked:
            asked.write("".join(f"{request.input}\n" for request in requests))
        times = len(self._asked.read_text().splitlines())
        if times >= self._after and not self._sent.exists():
            self._sent.touch()
            os.kill(os.getpid(), self._signal)
        return self._calculator.run(requests)
