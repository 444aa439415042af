"""Asking a tool: one batch at a time for each process, in time, and poison calls apart."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayActorError

from tools.actors import ToolHost
from tools.base import ToolformerError, ToolRequest, ToolResult, ToolStatus

_BATCH = 32
_RESTART_LOOK_S = 0.5
_RESTART_LOOKS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAccess:
    """How one tool is reached: built by the stage when there are no `actors`, else one of them.

    `sharers` is how many stages ask the same actors: an actor may have a batch of each waiting.
    """

    name: str
    factory: str | None
    options: dict[str, Any]
    timeout_s: float
    sharers: int = 1
    actors: Sequence[Any] = field(default_factory=tuple)


class ToolClient:
    """Asks one tool. Waiting for a free process does not count towards the timeout."""

    def __init__(self, access: ToolAccess) -> None:
        """Builds the tool here when it has no actors; raises ToolformerError if it cannot."""
        self._access = access
        self._here: ToolHost | None = None
        if not access.actors:
            self._here = ToolHost(access.name, access.factory, access.options)
            self._here.load()
        self._free: asyncio.Queue[Any] = asyncio.Queue()
        for process in access.actors or [self._here]:
            self._free.put_nowait(process)

    async def ask(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        """One result for each request, in order.

        Raises:
            ToolformerError: the tool broke its contract, or its process is gone for good.
        """
        batches = [requests[i : i + _BATCH] for i in range(0, len(requests), _BATCH)]
        answered = await asyncio.gather(*(self._ask_batch(batch) for batch in batches))
        return [result for batch in answered for result in batch]

    async def _ask_batch(self, batch: Sequence[ToolRequest]) -> list[ToolResult]:
        process = await self._free.get()
        try:
            if self._here is not None:
                return await asyncio.to_thread(self._here.run, batch)
            return await self._ask_actor(process, batch)
        finally:
            self._free.put_nowait(process)

    async def _ask_actor(self, actor: Any, batch: Sequence[ToolRequest]) -> list[ToolResult]:
        access = self._access
        try:
            async with asyncio.timeout(access.timeout_s * access.sharers):
                results: list[ToolResult] = await actor.run.remote(list(batch))
                return results
        except TimeoutError:
            # It hangs, or works on what nobody waits for: the next batch needs a fresh process.
            ray.kill(actor, no_restart=False)
            late = ToolResult(status=ToolStatus.TIMEOUT, error=f"no answer in {access.timeout_s} s")
            answered = [late] * len(batch)
        except RayActorError:
            answered = [ToolResult.failed("the tool's process died of this call")]
        await self._until_back(actor)
        if len(answered) == len(batch):
            return answered
        alone = [await self._ask_actor(actor, [request]) for request in batch]
        return [result for results in alone for result in results]

    async def _until_back(self, actor: Any) -> None:
        """Wait until a process that died has been restarted and has loaded its tool again.

        Raises:
            ToolformerError: it does not come back.
        """
        for _ in range(_RESTART_LOOKS):
            try:
                await actor.load.remote()
                return
            except RayActorError:
                await asyncio.sleep(_RESTART_LOOK_S)
        raise ToolformerError(
            f"tool {self._access.name}: its process died and did not come back within "
            f"{_RESTART_LOOKS * _RESTART_LOOK_S:.0f} s; run the same command again to continue"
        )
