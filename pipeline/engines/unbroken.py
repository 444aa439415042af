"""Work that goes to its end although those that wait for it are cancelled: threads cannot be."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


async def to_its_end(work: Awaitable[Answer]) -> Answer:
    """What `work` returns. A cancellation meanwhile is raised once it has ended, not before."""
    running = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not running.cancelled():
            running.exception()  # asyncio warns of one that nobody asks for
        raise cancelled
    return running.result()


class Once(Generic[Answer]):
    """One run of `work` for all that ask for what it returns; one that failed is run again."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Answer]]) -> None:
        self._work = work
        self._running: asyncio.Task[Answer] | None = None

    async def get(self) -> Answer:
        """What `work` returned. Who stops waiting stops nobody else's."""
        if self._running is None or _failed(self._running):
            self._running = asyncio.create_task(self._work())
        return await asyncio.shield(self._running)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
