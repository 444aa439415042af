"""How the replicas of a pool are asked, by stages and by replicas of other pools."""

import asyncio
import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayTaskError

from pipeline.engines.gate import Turn
from pipeline.engines.gone import GONE, ReplicaLost
from pipeline.engines.places import Key

_READY_S = 30.0  # a replica says at once whether it is there


class PoolClient:
    """Asks the replicas of one pool, each time the one that the dispatcher says is free.

    For one event loop, in an actor.
    """

    def __init__(self, pool: str, replicas: Sequence[Any], dispatcher: Any) -> None:
        self._pool, self._replicas, self._dispatcher = pool, list(replicas), dispatcher
        self._holder = ray.get_runtime_context().get_actor_id() or "driver"
        self._life = uuid.uuid4().hex
        self._numbers = itertools.count()
        dispatcher.began.remote(self._holder, self._life)

    async def ask(self, turn: Turn, method: str, *arguments: Any, alone: bool = False) -> Any:
        """What `method` of a replica returns. `alone`: nothing else is at work on it meanwhile.

        Raises:
            ReplicaLost: the replica was lost while it was at work on this, or one of another
                pool was that it had asked.
            RayTaskError: around what the method raised; from the dispatcher, around the
                ToolformerError that says why no replica can be asked.
        """
        while True:
            key = Key(self._holder, self._life, next(self._numbers))
            after: tuple[str, *tuple[Any, ...]] = ("release", self._pool, key)
            try:
                acquired = self._dispatcher.acquire.remote(self._pool, key, turn, alone)
                number = await acquired
                replica = self._replicas[number]
                try:
                    # A replica that died when nobody asked is not to be laid to this request. The
                    # first call of a process to one that waits for a node waits as well.
                    async with asyncio.timeout(_READY_S):
                        life = await replica.ready.remote()
                except (TimeoutError, *GONE):
                    after = ("lost", self._pool, key, number)
                    continue
                if life is None:
                    after = ("unloaded", self._pool, key, number)
                    continue
                try:
                    return await getattr(replica, method).remote(*arguments)
                except RayTaskError as error:  # before GONE: Ray's copies are of both classes
                    if isinstance(error.cause, ReplicaLost):
                        raise error.cause from None
                    raise
                except GONE:
                    after = ("lost", self._pool, key, number)
                    raise ReplicaLost(self._pool, number, life) from None
            finally:
                tell, *what = after
                getattr(self._dispatcher, tell).remote(*what)

    async def died(self, lost: ReplicaLost) -> bool:
        """Whether the process that was lost is no more, or was only out of reach; waits for it."""
        died: bool = await self._dispatcher.died.remote(lost.pool, lost.number, lost.life)
        return died
