"""A process that answers the calls of one tool, as a Ray actor or in the caller's own process."""

from collections.abc import Sequence
from typing import Any

import ray

from tools.base import Tool, ToolformerError, ToolRequest, ToolResult
from tools.registry import build_tool


def answer(tool: Tool, requests: Sequence[ToolRequest]) -> list[ToolResult]:
    """One result for each request. A request that breaks the tool fails alone.

    Raises:
        ToolformerError: a broken contract, which no retry mends.
    """
    try:
        return tool.run(requests)
    except ToolformerError:
        raise
    except Exception as error:  # the tool may be anyone's code: what it raises is its answer
        if len(requests) == 1:
            return [ToolResult.failed(f"{type(error).__name__}: {error}")]
        return [result for request in requests for result in answer(tool, [request])]


class ToolHost:
    """A tool with what it loads, built where it runs."""

    def __init__(self, name: str, factory: str | None, options: dict[str, Any]) -> None:
        self._tool = build_tool(name, factory=factory, options=options)

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return answer(self._tool, requests)


# A restarted actor loads its tool anew; a batch it died in is asked once more, then fails.
ToolActor = ray.remote(num_cpus=0, max_restarts=3, max_task_retries=1)(ToolHost)
