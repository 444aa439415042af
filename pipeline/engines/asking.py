"""How the replicas of a pool are asked, by stages and by replicas of other pools."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayTaskError, TaskCancelledError

from pipeline.engines.gate import Turn
from pipeline.engines.gone import GONE, ReplicaLost
from pipeline.engines.lives import LIFE, running
from pipeline.engines.places import Key

# So often a replica that answers the dispatcher may not answer here, with a pause before the
# last: the link between the two may be broken on one side, and its other users are not to suffer.
_SILENT, _PAUSE_S = 3, 5.0

_numbers = itertools.count()  # for all clients of a process: two of them may share a pool


class PoolClient:
    """Asks the replicas of one pool, each time the one that the dispatcher says is free.

    For one event loop, in an actor.
    """

    def __init__(
        self, pool: str, replicas: Sequence[Any], dispatcher: Any, *, pause_s: float = _PAUSE_S
    ) -> None:
        self._pool, self._replicas, self._dispatcher = pool, list(replicas), dispatcher
        self._pause_s = pause_s
        in_actor = ray.get_runtime_context().get_actor_id() if ray.is_initialized() else None
        self._holder = in_actor or "driver"
        dispatcher.began.remote(self._holder, LIFE)

    async def ask(self, turn: Turn, method: str, *arguments: Any, alone: bool = False) -> Any:
        """What `method` of a replica returns. `alone`: nothing else is at work on it meanwhile.

        Raises:
            ReplicaLost: the replica was lost while it was at work on this, or one of another
                pool was that it had asked; without a life where it never answered at all.
            RayTaskError: around what the method raised; from the dispatcher, around the
                ToolformerError that says why no replica can be asked.
        """
        silent = Counter[int]()
        while True:
            key, number, life = await self._acquired(turn, alone)
            replica = self._replicas[number]
            tell: Any = None
            try:
                # A replica that died when nobody asked is not to be laid to this request. The
                # first call of a process to one that waits for a node waits as well.
                ready = await running(replica)
                if ready:
                    life = ready
                    return await getattr(replica, method).remote(*arguments)
                if ready is None:
                    tell = self._dispatcher.lost
                    silent[number] += 1
                    if silent[number] == _SILENT:
                        raise ReplicaLost(self._pool, number, "")
                else:
                    tell = self._dispatcher.unloaded
            except RayTaskError as error:  # before GONE: Ray's copies are of both classes
                if isinstance(error.cause, ReplicaLost):
                    raise error.cause from None
                raise
            except GONE:
                tell = self._dispatcher.lost
                raise ReplicaLost(self._pool, number, life or "") from None
            finally:
                if tell is None:
                    self._dispatcher.release.remote(self._pool, key)
                else:
                    tell.remote(self._pool, key, number, life)
            if silent[number] == _SILENT - 1:
                await asyncio.sleep(self._pause_s)

    async def _acquired(self, turn: Turn, alone: bool) -> tuple[Key, int, str | None]:
        """A place on a replica, and which process of it was known then."""
        while True:
            key = Key(self._holder, LIFE, next(_numbers))
            try:
                number, life = await self._dispatcher.acquire.remote(self._pool, key, turn, alone)
            except BaseException as error:
                self._dispatcher.release.remote(self._pool, key)
                if not isinstance(error, TaskCancelledError):
                    raise
                # Else it was taken for what an earlier process asked, which is gone.
            else:
                return key, number, life

    async def died(self, lost: ReplicaLost) -> bool:
        """Whether the process that was lost is no more, or was only out of reach; waits for it."""
        died: bool = await self._dispatcher.died.remote(lost.pool, lost.number, lost.life)
        return died
