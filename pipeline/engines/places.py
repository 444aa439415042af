"""Which replica of a pool answers what: the one that is free, the most urgent request first.

Pure asyncio: what asks the replicas whether they are back is dispatcher.py.
"""

import asyncio
from bisect import insort
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.engines.gate import Turn


class Key(NamedTuple):
    """A request for a place. Asked twice, it is one request: Ray repeats calls that got lost.

    `holder` is the id of the actor that asks, which stays when Ray restarts it; `life` is not.
    """

    holder: str
    life: str
    number: int


@dataclass(slots=True, kw_only=True)
class _Replica:
    number: int
    up: bool = True
    held: set[Key] = field(default_factory=set)
    kept_for: Key | None = None  # who has it alone, or will once it is empty


@dataclass(slots=True, order=True)
class _Request:
    rank: tuple[bool, Turn, int]  # those that want a replica alone first: a unit waits for each
    key: Key = field(compare=False)
    granted: asyncio.Future[int] = field(compare=False)

    @property
    def alone(self) -> bool:
        return not self.rank[0]


class Places:
    """The places of one pool: `at_once` of each replica that is up.

    A place is held until it is released, and what holds one is at work there: nothing waits in a
    replica. `empty` is called with True when no replica is up, with False when one is again;
    `changed` when somebody waits or does so no longer.
    """

    def __init__(
        self,
        *,
        replicas: int,
        at_once: int,
        empty: Callable[[bool], None] = lambda _: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._replicas = [_Replica(number=number) for number in range(replicas)]
        self._at_once = at_once
        self._empty, self._changed = empty, changed
        self._waiting: list[_Request] = []
        self._arrivals = 0
        self._refusal: Exception | None = None

    @property
    def num_up(self) -> int:
        return sum(replica.up for replica in self._replicas)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def is_up(self, number: int) -> bool:
        return self._replicas[number].up

    async def acquire(self, key: Key, turn: Turn, *, alone: bool = False) -> int:
        """The number of the replica that has a place for `key`; waits for it.

        `alone`: nothing else is at work on that replica while the place is held.

        Raises:
            Exception: what `refuse` was told.
            CancelledError: it was given back meanwhile.
        """
        for replica in self._replicas:
            if key in replica.held:
                return replica.number
        if self._refusal is not None:
            raise self._refusal
        request = next((request for request in self._waiting if request.key == key), None)
        if request is None:
            self._arrivals += 1
            granted = asyncio.get_running_loop().create_future()
            request = _Request((not alone, turn, self._arrivals), key, granted)
            insort(self._waiting, request)
            self._give()
        return await asyncio.shield(request.granted)

    def release(self, key: Key) -> None:
        """Give back what `key` holds or waits for; nothing if that is unknown."""
        self._drop(lambda other: other == key)

    def free(self, holder: str, *, but: str | None = None) -> None:
        """Give back all that `holder` holds or waits for, but in its life `but`."""
        self._drop(lambda key: key.holder == holder and key.life != but)

    def free_all_but(self, holders: Collection[str]) -> None:
        """Give back all that others than `holders` hold or wait for."""
        self._drop(lambda key: key.holder not in holders)

    def take_out(self, number: int) -> None:
        """Give nobody a place on this replica until `bring_back`."""
        replica = self._replicas[number]
        replica.up, replica.kept_for = False, None
        if not self.num_up:
            self._empty(True)
        self._give()

    def bring_back(self, number: int) -> None:
        replica = self._replicas[number]
        if not self.num_up:
            self._empty(False)
        replica.up = True
        self._refusal = None
        self._give()

    def refuse(self, error: Exception) -> None:
        """Let all that wait, and all that come before a replica is back, fail with `error`."""
        self._refusal = error
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            if not request.granted.done():
                request.granted.set_exception(error)
        self._changed()

    def _drop(self, meant: Callable[[Key], bool]) -> None:
        for request in [request for request in self._waiting if meant(request.key)]:
            self._waiting.remove(request)
            request.granted.cancel()
        for replica in self._replicas:
            replica.held = {key for key in replica.held if not meant(key)}
            if replica.kept_for is not None and meant(replica.kept_for):
                replica.kept_for = None
        self._give()

    def _give(self) -> None:
        """Give what is free to those that wait, in order."""
        for request in list(self._waiting):
            replica = self._place_for(request)
            if replica is None:
                if not request.alone:
                    break  # nor is there one for any other behind it
                continue
            self._waiting.remove(request)
            replica.held.add(request.key)
            request.granted.set_result(replica.number)
        self._changed()

    def _place_for(self, request: _Request) -> _Replica | None:
        free = [
            replica
            for replica in self._replicas
            if replica.up and replica.kept_for in (None, request.key)
        ]
        if not free:
            return None
        if not request.alone:
            best = min(free, key=lambda replica: len(replica.held))
            return best if len(best.held) < self._at_once else None
        # One replica is kept from others until it is empty.
        kept = next((replica for replica in free if replica.kept_for == request.key), None)
        chosen = kept or min(free, key=lambda replica: len(replica.held))
        chosen.kept_for = request.key
        return None if chosen.held else chosen
