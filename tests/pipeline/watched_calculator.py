"""The Calculator, slowly and on record: who was asked what, for tests of whole runs."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tools.base import ToolRequest, ToolResult
from tools.calculator import Calculator


class WatchedCalculator:
    """Answers as the Calculator does, `pause_s` later; every batch is a line of the file `log`."""

    name = "Calculator"
    version = "1"

    def __init__(self, *, log: str, pause_s: float) -> None:
        self._calculator, self._log, self._pause_s = Calculator(), Path(log), pause_s

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        with self._log.open("a") as log:
            log.write(json.dumps([os.getpid(), [request.input for request in requests]]) + "\n")
        time.sleep(self._pause_s)
        return self._calculator.run(requests)
