"""A process that answers the calls of one tool, as a Ray actor or in the caller's own process."""

from collections.abc import Sequence
from typing import Any

import ray

from tools.base import ContractError, Tool, ToolformerError, ToolRequest, ToolResult
from tools.registry import build_tool


def answer(tool: Tool, requests: Sequence[ToolRequest]) -> list[ToolResult]:
    """One result for each request, in order. A request that breaks the tool fails alone.

    Raises:
        ContractError: the tool did not answer every request with a ToolResult of text.
        ToolformerError: whatever of this system's errors the tool raises; no retry mends those.
    """
    try:
        return _checked(tool, requests, tool.run(requests))
    except ToolformerError:
        raise
    except Exception as error:  # the tool may be anyone's code: what it raises is its answer
        if len(requests) == 1:
            return [ToolResult.failed(f"{type(error).__name__}: {error}")]
        return [result for request in requests for result in answer(tool, [request])]


def _checked(
    tool: Tool, requests: Sequence[ToolRequest], results: Sequence[ToolResult]
) -> list[ToolResult]:
    if len(results) != len(requests):
        raise _broken(tool, f"{len(results)} results", str(len(requests)))
    for result in results:
        if not isinstance(result, ToolResult):
            raise _broken(tool, f"a {type(result).__name__}", "a ToolResult")
        if not isinstance(result.result, str | None):
            raise _broken(tool, f"a result of type {type(result.result).__name__}", "text")
    return list(results)


def _broken(tool: Tool, got: str, expected: str) -> ContractError:
    return ContractError(stage=f"tool {tool.name}", doc_id="(batch)", got=got, expected=expected)


class ToolHost:
    """A tool with what it loads, built where it runs.

    It is not built by the constructor: what fails in a call comes back from Ray as the exception
    it is, what fails in a constructor as text.
    """

    def __init__(self, name: str, factory: str | None, options: dict[str, Any]) -> None:
        self._name, self._factory, self._options = name, factory, options
        self._tool: Tool | None = None

    def load(self) -> None:
        """Build the tool, unless that is done.

        Raises:
            ToolformerError: it cannot be built.
        """
        if self._tool is None:
            self._tool = build_tool(self._name, factory=self._factory, options=self._options)

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        self.load()
        assert self._tool is not None
        return answer(self._tool, requests)


# Restarts need no bound: a call that kills the process is asked twice and then fails.
ToolActor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(ToolHost)
