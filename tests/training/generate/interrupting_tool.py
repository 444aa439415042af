"""A tool during which somebody presses Ctrl-C, the first time it is asked."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tools.base import ToolRequest, ToolResult


class InterruptingTool:
    name = "Interrupting"
    version = "1"

    def __init__(self, *, pressed: str) -> None:
        self._pressed = Path(pressed)

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        if not self._pressed.exists():
            self._pressed.touch()
            os.kill(os.getpid(), signal.SIGINT)
        return [ToolResult.ok("y")] * len(requests)
