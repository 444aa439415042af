"""The actor that knows which replicas are free and which are gone, for all stages of a run."""

import json
import logging
import uuid
from collections.abc import Sequence
from typing import Any

import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.attempts import Attempts, UnitsInFlight, Work
from pipeline.engines.gate import Turn
from pipeline.engines.metrics import count_lost_replica, show_in_flight
from pipeline.engines.places import Key
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.watched_pool import PoolMembers, WatchedPool, id_of

# A cluster may need this long to put another node in the place of one that went.
PATIENCE_S = 1800.0

_logger = logging.getLogger(__name__)


class Dispatcher:
    """Gives the requests of all stages, and of replicas to other pools, their replicas.

    Where it is started again it knows no more who holds what, which does no harm: it gives a
    place that is taken, and the gate of that replica lets the request wait. What was begun and
    not ended it forgets as well: whatever is killed by that costs as many deaths again. What the
    replicas must run is kept outside.
    """

    def __init__(self, pools: Sequence[PoolMembers], patience_s: float = PATIENCE_S) -> None:
        self._members = pools
        self._pools = {
            members.name: WatchedPool(members, patience_s, self._free) for members in pools
        }
        for pool in self._pools.values():
            pool.expected = _remembered(pool.name)
        self._attempts = Attempts()
        self._in_flight = UnitsInFlight()

    async def acquire(
        self, pool: str, key: Key, turn: Turn, alone: bool = False
    ) -> tuple[int, str | None]:
        """The replica in `pool` that has a place for `key`, and its last known process; waits.

        Raises:
            ToolformerError: no replica of the pool came back in time, or each refuses to load.
            CancelledError: the place was taken back, as that of a process that is no more; one
                that is there asks again.
        """
        number = await self._pools[pool].places.acquire(key, turn, alone=alone)
        return number, self._pools[pool].life_of(number)

    async def release(self, pool: str, key: Key) -> None:
        self._pools[pool].places.release(key)

    async def lost(self, pool: str, key: Key, number: int, life: str | None) -> None:
        """`key` gives its place back, as the replica is gone: nobody is sent there for now.

        `life` is the process that was asked, or what `acquire` said. Another one may run by now:
        of that it tells nothing.
        """
        if self._pools[pool].lost(number, life):
            _logger.warning("pool %s: replica %d is lost", pool, number)
            count_lost_replica(pool)
        self._pools[pool].places.release(key)

    async def unloaded(self, pool: str, key: Key, number: int, life: str | None) -> None:
        """The same of a replica that was not at work: it has not loaded its weights (again)."""
        self._pools[pool].lost(number, life)
        self._pools[pool].places.release(key)

    async def died(self, pool: str, number: int, life: str) -> bool:
        """Whether the process `life` of a replica that was lost is no more, or only out of reach.

        Waits until that is known, at most some minutes. What never answered killed nothing.
        """
        return bool(life) and await self._pools[pool].died(number, life)

    async def began(self, holder: str, life: str) -> None:
        """An actor has been started: what it held in an earlier life is free."""
        self._free(holder, life)

    def _free(self, holder: str, life: str) -> None:
        for pool in self._pools.values():
            pool.places.free(holder, but=life)

    async def stages_ended(self) -> None:
        """Between two waves: only replicas may still hold places.

        A stage that dies at the end of its wave has no successor of its id that frees its own.
        """
        replicas = {id_of(replica) for members in self._members for replica in members.replicas}
        for pool in self._pools.values():
            pool.places.free_all_but(replicas)
        self._in_flight.clear()
        show_in_flight(0)

    async def expect(self, pool: str, info: EngineInfo | None) -> None:
        """A replica that is started again must load exactly this; None: whatever it says."""
        self._pools[pool].expected = info
        _remember(pool, info)

    async def replicas_up(self) -> dict[str, tuple[int, int]]:
        """For each pool, how many of its replicas answer, and how many there are."""
        return {
            members.name: (self._pools[members.name].places.num_up, len(members.replicas))
            for members in self._members
        }

    async def begin(self, works: Sequence[Work], life: str) -> list[int]:
        """See Attempts."""
        self._in_flight.begin(works)
        show_in_flight(len(self._in_flight))
        return self._attempts.begin(works, life)

    async def end(self, works: Sequence[Work]) -> None:
        """See Attempts."""
        self._attempts.end(works)
        self._in_flight.end(works)
        show_in_flight(len(self._in_flight))


def _key(pool: str) -> str:
    return f"toolformer_expected:{ray.get_runtime_context().get_actor_id()}:{pool}"


def _remember(pool: str, info: EngineInfo | None) -> None:
    _internal_kv_put(_key(pool), json.dumps(info))


def _remembered(pool: str) -> EngineInfo | None:
    """What this actor was last told to expect, in this process or an earlier one."""
    kept = _internal_kv_get(_key(pool)) if ray.is_initialized() else None
    values = None if kept is None else json.loads(kept)
    return None if values is None else EngineInfo(*values)


_AT_ONCE = 100_000  # calls: all units of a run may wait for a place


def dispatcher_name() -> str:
    """A name for a dispatcher; replicas that it knows find it by that."""
    return f"toolformer-dispatcher-{uuid.uuid4().hex}"


def start_dispatcher(
    name: str, pools: Sequence[PoolMembers], *, patience_s: float = PATIENCE_S
) -> Any:
    """The handle of a dispatcher on this node, or on another where this one is full."""
    here = ray.get_runtime_context().get_node_id()
    options = {
        "name": name,
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "max_concurrency": _AT_ONCE,
        "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=True),
    }
    return ray.remote(Dispatcher).options(**options).remote(pools, patience_s)
