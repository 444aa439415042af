"""A tool that does what it is told, to see what becomes of the calls around it."""

import os
import time
from collections.abc import Sequence

from tools.base import ToolRequest, ToolResult


class BreakableTool:
    """Answers an input with itself; some inputs raise, hang, or end the process."""

    name = "Breakable"
    version = "1"

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [self._answer(request.input) for request in requests]

    def _answer(self, text: str) -> ToolResult:
        if text == "die":
            os._exit(1)
        if text == "hang":
            time.sleep(3600)
        if text.startswith("wait"):
            time.sleep(0.02)
        if text == "raise":
            raise RuntimeError("told to")
        if text == "number":
            return ToolResult.ok(7)  # type: ignore[arg-type]
        return ToolResult.ok(text)
