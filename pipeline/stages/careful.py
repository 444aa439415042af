"""Calls of tools inside the stage's own process, some of which may end it.

Outside the process is kept which calls it had begun when it died. Those are suspects: each is
asked alone, with nothing else at work beside it, and one that a second process dies of is failed.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pipeline.attempts import Work
from pipeline.engines.lives import LIFE
from pipeline.stages.turns import Turns
from tools.actors import Served
from tools.base import ToolRequest, ToolResult

DIED_OF_CALL = "the tool's process died of this call"
Run = Callable[[Sequence[ToolRequest]], Awaitable[Served]]


class CarefulCalls:
    """For all tools of a process: one death for each call that ends it, and one before.

    Costs a batch one answer of the dispatcher, about a millisecond.
    """

    def __init__(self, dispatcher: Any, *, life: str = LIFE) -> None:
        """`dispatcher` keeps what was begun in which life of the stage; see Attempts."""
        self._dispatcher, self._life = dispatcher, life
        self._turns = Turns()

    async def answer(self, tool: str, batch: Sequence[ToolRequest], run: Run) -> Served:
        """What `run` answers to the batch, each suspect alone; failed is what it would die of."""
        results: dict[ToolRequest, ToolResult] = {}
        seconds = 0.0
        async with self._turns.beside_others():
            deaths = await self._begin([_work("batch", tool, request) for request in batch])
            plain = [request for request, died in zip(batch, deaths, strict=True) if not died]
            if plain:
                served = await run(plain)
                self._end([_work("batch", tool, request) for request in plain])
                results |= zip(plain, served.results, strict=True)
                seconds += served.seconds
        for request in batch:
            if request not in results:
                async with self._turns.alone():
                    served = await self._alone(tool, request, run)
                results[request] = served.results[0]
                seconds += served.seconds
        return Served([results[request] for request in batch], seconds)

    async def _alone(self, tool: str, request: ToolRequest, run: Run) -> Served:
        work = _work("alone", tool, request)
        (deaths,) = await self._begin([work])
        if deaths:
            return Served([ToolResult.failed(DIED_OF_CALL)], 0.0)
        served = await run([request])
        self._end([work, _work("batch", tool, request)])
        return served

    async def _begin(self, works: Sequence[Work]) -> list[int]:
        before: list[int] = await self._dispatcher.begin.remote(works, self._life)
        return before

    def _end(self, works: Sequence[Work]) -> None:
        self._dispatcher.end.remote(works)


def _work(how: str, tool: str, request: ToolRequest) -> Work:
    return ("execute", how, tool, request.input, str(request.date))
