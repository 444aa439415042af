"""A calculator that breaks in a way only a run meets."""

from collections.abc import Sequence

import ray

from tools.base import ToolRequest, ToolResult


class BrokenCalculator:
    """Breaks "where it runs", when it is built there, or "its contract", when it answers."""

    name, version = "Calculator", "broken"

    def __init__(self, *, breaks: str) -> None:
        if breaks == "where it runs" and ray._private.worker.global_worker.mode == ray.WORKER_MODE:
            raise RuntimeError("the moon is down\nand dark")

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [ToolResult.ok("1")] * (len(requests) + 1)
