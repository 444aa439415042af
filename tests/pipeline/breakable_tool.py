"""A tool that does what it is told, to see what becomes of the calls around it."""

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.base import ToolRequest, ToolResult


class BreakableTool:
    """Answers an input with itself; some inputs raise, hang, or end the process.

    Every batch is a line of the file `log`: the process, and the inputs.
    """

    name = "Breakable"

    def __init__(self, *, log: str | None = None, version: str = "1") -> None:
        self.version = version
        self._log = None if log is None else Path(log)
        self._asked: Counter[str] = Counter()

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        if self._log is not None:
            with self._log.open("a") as log:
                log.write(json.dumps([os.getpid(), [request.input for request in requests]]) + "\n")
        return [self._answer(request.input) for request in requests]

    def _answer(self, text: str) -> ToolResult:
        self._asked[text] += 1
        if text == "die":
            os._exit(1)
        if text == "hang":
            time.sleep(3600)
        if text.startswith("wait"):
            time.sleep(0.02)
        if text.startswith("slow"):
            time.sleep(0.5)
        if text == "raise":
            raise RuntimeError("told to")
        if text == "exit":
            raise SystemExit("told to")
        if text == "cancel":
            raise asyncio.CancelledError("told to")
        if text == "number":
            return ToolResult.ok(7)  # type: ignore[arg-type]
        if text == "error object":
            return ToolResult.invalid(ValueError("told to"))  # type: ignore[arg-type]
        if text == "status text":
            return ToolResult(status="failed", error="told to")  # type: ignore[arg-type]
        if text.startswith("invalid"):
            return ToolResult.invalid("told to")
        if text.startswith("down") or (text.startswith("starting") and self._asked[text] <= 2):
            return ToolResult.failed("not there yet", retryable=True)
        return ToolResult.ok(text)


class LoadedTool(BreakableTool):
    """The same, but it answers only after `load`, with the date and the page it was given."""

    def __init__(
        self,
        *,
        loads: str = "",
        pause_s: float = 0.0,
        uses_date: bool = False,
        pages: bool = False,
    ) -> None:
        super().__init__()
        self._loads, self._pause_s = loads, pause_s
        self._loaded = 0
        self.uses_date, self.pages = uses_date, pages

    def load(self) -> None:
        if self._loads:
            raise RuntimeError(self._loads)
        time.sleep(self._pause_s)
        self._loaded += 1

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [
            ToolResult.ok(f"{self._loaded} {request.date}" + f" page {request.page}" * self.pages)
            for request in requests
        ]
