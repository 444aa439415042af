"""Room for what is in flight at once, in tokens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Room:
    """Tokens that may be in flight at once; who asks first gets in first."""

    def __init__(self, tokens: int) -> None:
        self._size = self._free = tokens
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def taken(self, tokens: int) -> AsyncIterator[None]:
        """Waits until there is room for so many, which are free again at the end.

        More than there is room for go alone.
        """
        tokens = min(tokens, self._size)
        async with self._turn:
            while self._free < tokens:
                self._changed.clear()
                await self._changed.wait()
            self._free -= tokens
        try:
            yield
        finally:
            self._free += tokens
            self._changed.set()
