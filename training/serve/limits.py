"""What one request may ask for, and how many there may be at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from training.serve.errors import busy, ending, timed_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Beyond these a request is refused, or ended."""

    max_body_bytes: int = 1 << 20
    max_new_tokens: int = 1024  # of each prompt
    max_prompts: int = 16  # in one request
    max_running: int = 16  # requests
    max_waiting: int = 64  # requests
    max_connections: int = 512  # each has a file descriptor, and perhaps a body in memory
    timeout_s: float = 120.0  # from the whole body to the last byte; for head and body as well


class Admission:
    """Requests that run and that wait for it, first come, first served.

    Attributes:
        num_running: requests that generate.
        num_waiting: requests that wait for one of them to end.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.max_running)
        self._open: set[asyncio.Timeout] = set()
        self._running: set[asyncio.Timeout] = set()
        self.is_ending = False

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._open) - len(self._running)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """The time in which a request runs, once it is its turn.

        Raises:
            ApiError: 429 where too many wait, 504 where the request takes too long, 503 where the
                server ends.
        """
        limits = self._limits
        if self.is_ending:
            raise ending()
        if len(self._open) >= limits.max_running + limits.max_waiting:
            raise busy(
                f"{limits.max_running} requests run and {limits.max_waiting} wait, as many as may"
            )
        try:
            async with asyncio.timeout(limits.timeout_s) as deadline:
                self._open.add(deadline)
                try:
                    async with self._turns:
                        self._running.add(deadline)
                        yield
                finally:
                    self._open.discard(deadline)
                    self._running.discard(deadline)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise (ending() if self.is_ending else timed_out(limits.timeout_s)) from None

    def end(self, grace_s: float) -> None:
        """No request runs from now on, except those that run already, and those for `grace_s`."""
        self.is_ending = True
        now = asyncio.get_running_loop().time()
        for deadline in self._open:
            if deadline.expired():
                continue
            left_s = grace_s if deadline in self._running else 0.0
            deadline.reschedule(min(now + left_s, deadline.when() or now))
