"""Whose turn it is in an engine: the later stage first, never more at once than it bears."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import IntEnum


class Turn(IntEnum):
    """What waits, the most urgent first: what is nearest to its end frees the most memory.

    A raw request is part of a unit that another replica has begun.
    """

    RELOAD = 0  # waits for what runs, and nothing runs beside it
    LOSS = 1
    SCORE_UNIT = 2
    SAMPLE_UNIT = 3
    POSITION = 4


@dataclass(slots=True, order=True)
class _Waiting:
    turn: Turn
    arrival: int
    tokens: int = field(compare=False)
    admitted: asyncio.Future[None] = field(compare=False)


class Gate:
    """Lets at most `at_once` in, and together no more than `max_tokens` unless it is one alone.

    `max_tokens` 0 bounds nothing. The first in line is never overtaken by a smaller one behind
    it. For one event loop; `changed` is called when something has come or gone.
    """

    def __init__(
        self, *, at_once: int, max_tokens: int = 0, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._at_once = at_once
        self._max_tokens = max_tokens
        self._changed = changed
        self._line: list[_Waiting] = []
        self._arrivals = 0
        self._tokens = 0
        self._reloading = False
        self.running = 0

    def waiting(self, turn: Turn) -> int:
        """How many wait for this kind of turn."""
        return sum(w.turn is turn and not w.admitted.cancelled() for w in self._line)

    @asynccontextmanager
    async def turn(self, turn: Turn, tokens: int = 0) -> AsyncIterator[None]:
        """Wait for a turn; it ends with the body, however that ends."""
        admitted = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        waiting = _Waiting(turn, self._arrivals, tokens, admitted)
        heapq.heappush(self._line, waiting)
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._admit()  # those behind it
            else:
                self._leave(waiting)
            raise
        try:
            yield
        finally:
            self._leave(waiting)

    def _admit(self) -> None:
        while self._line:
            first = self._line[0]
            gave_up = first.admitted.cancelled()
            if not gave_up and not self._has_room_for(first):
                break
            heapq.heappop(self._line)
            if gave_up:
                continue
            self.running += 1
            self._tokens += first.tokens
            self._reloading = first.turn is Turn.RELOAD
            first.admitted.set_result(None)
        self._changed()

    def _has_room_for(self, first: _Waiting) -> bool:
        if self.running == 0:
            return True
        if self._reloading or first.turn is Turn.RELOAD or self.running >= self._at_once:
            return False
        return not self._max_tokens or self._tokens + first.tokens <= self._max_tokens

    def _leave(self, gone: _Waiting) -> None:
        self.running -= 1
        self._tokens -= gone.tokens
        self._reloading = False
        self._admit()
