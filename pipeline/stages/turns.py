"""Who in a process may be at work beside others, and who is alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Many beside each other, or one alone, which goes first when it waits."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._beside = self._waiting_alone = 0
        self._alone = False

    @asynccontextmanager
    async def beside_others(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._waiting_alone)
            self._beside += 1
        try:
            yield
        finally:
            async with self._changed:
                self._beside -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and not self._beside)
            finally:
                self._waiting_alone -= 1
                self._changed.notify_all()
            self._alone = True
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()
