"""Tools that answer while texts wait for them: one try each, and an answer in any case."""

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from pipeline.pools import access_to, tell_of_unplaced
from pipeline.ray_session import our_error, ray_session, short_text
from pipeline.stages.tool_access import ToolAccess, ToolClient
from pipeline.tool_config import ServedTool
from tools.actors import ToolActor
from tools.base import ToolformerError, ToolRequest, ToolResult, one_line
from training.generate.brackets import WrittenCall

_PATIENCE_S = 60.0
_logger = logging.getLogger(__name__)


class LiveTools:
    """The tools of a configuration, loaded."""

    def __init__(self, clients: Mapping[str, ToolClient]) -> None:
        self._clients = clients

    async def ask(self, written: WrittenCall, date: dt.date, page: int) -> ToolResult:
        """The answer to a call; whatever is wrong, with the call or the tool, is its error.

        It is late when its batch takes longer than the tool's `timeout_s`. Where many texts ask at
        once, the time before the tool is given the batch does not count.
        """
        tool = written.call.tool
        if not written.is_valid:
            return ToolResult.invalid(f"{written.text!r} is not Name(input) alone; {self._named()}")
        if tool not in self._clients:
            return ToolResult.invalid(f"no tool is called {tool!r}; {self._named()}")
        request = ToolRequest(input=written.call.input, date=date, page=page)
        try:
            (answer,) = await self._clients[tool].ask([request])
        except (ToolformerError, RayError) as error:
            ours = our_error(error)
            return ToolResult.failed(short_text(error) if ours is None else one_line(ours))
        return answer

    def _named(self) -> str:
        return f"there are {', '.join(self._clients)}" if self._clients else "there are no tools"


@asynccontextmanager
async def live_tools(
    tools: Mapping[str, ServedTool], *, cache: Path | None, address: str | None
) -> AsyncIterator[LiveTools]:
    """The tools, loaded: in this process, or in actors of the Ray cluster at `address`.

    Without an address the actors are in the Ray of this process, or in one of this machine alone;
    none is started where no tool has actors.

    Raises:
        ToolformerError: a tool cannot be built or loaded, or there is no such cluster.
    """
    async with AsyncExitStack() as stack:
        if any(tool.actors for tool in tools.values()):
            stack.enter_context(ray_session(address, dashboard=False))
        elif address is not None:
            _logger.warning("--address %s: not used, as no tool has actors", address)
        accesses = []
        for name, tool in tools.items():
            # A text waits: what may mend itself in a minute is of no use to it.
            once = tool.model_copy(update={"retries": 0})
            actors = [_actor(name, tool) for _ in range(tool.actors)]
            stack.callback(_end, actors)
            accesses.append(access_to(name, once, cache=cache, actors=actors))
        # One after the other in this process: what they import is not made for several threads.
        clients = await asyncio.to_thread(_load, accesses)
        yield LiveTools(clients)


def _actor(name: str, tool: ServedTool) -> Any:
    resources = {"num_gpus": tool.num_gpus, "num_cpus": tool.num_cpus}
    actor = ToolActor.options(**resources).remote(name, tool.factory, tool.options)
    actor.load.remote()  # all at once; the answer is read by the client
    return actor


def _end(actors: list[Any]) -> None:
    for actor in actors:
        ray.kill(actor)


def _load(accesses: list[ToolAccess]) -> dict[str, ToolClient]:
    tell_of_unplaced(accesses, _logger.warning, patience_s=_PATIENCE_S)
    try:
        return {access.name: ToolClient(access, in_time_here=True) for access in accesses}
    except RayError as error:
        raise our_error(error) or ToolformerError(short_text(error)) from None
