"""The actor that knows which replicas are free and which are gone, for all stages of a run."""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.attempts import Attempts, Work
from pipeline.engines.gate import Turn
from pipeline.engines.gone import GONE
from pipeline.engines.metrics import count_lost_replica, show_waiting
from pipeline.engines.places import Key, Places
from pipeline.engines.protocol import EngineInfo
from tools.base import ConfigError, ToolformerError

# A cluster may need this long to put another node in the place of one that went.
PATIENCE_S = 1800.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# So often in a row every replica of a pool must refuse to load before that is final.
_REFUSALS = 3
# Until a replica that was lost answers again, or is taken to have died.
_VERDICT_S = 600.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMembers:
    """The replicas of a pool, and how many requests each is at work on at once."""

    name: str
    replicas: Sequence[Any]
    at_once: int


@dataclass(slots=True)
class _Watched:
    """A replica as it is known: the process that answered last, and how often it refused."""

    actor: Any
    life: str | None = None
    refusal: ToolformerError | None = None
    refusals: int = 0
    back: asyncio.Event = field(default_factory=asyncio.Event)


class _Pool:
    """One pool: its places, and the replicas that are watched until they are back."""

    def __init__(self, members: PoolMembers, patience_s: float) -> None:
        self.name = members.name
        self.places = Places(
            replicas=len(members.replicas), at_once=members.at_once, empty=self._empty
        )
        self.expected: EngineInfo | None = None
        self._watched = [_Watched(actor) for actor in members.replicas]
        self._patience_s = patience_s
        self._revivals: set[asyncio.Task[None]] = set()
        self._giving_up: asyncio.TimerHandle | None = None

    def lost(self, number: int) -> str:
        """Take a replica out until it answers; returns the id of its actor."""
        watched = self._watched[number]
        if self.places.is_up(number):
            watched.back.clear()
            self.places.take_out(number)
            revival = asyncio.get_running_loop().create_task(self._revive(number, watched))
            self._revivals.add(revival)
            revival.add_done_callback(self._revivals.discard)
        return _id_of(watched.actor)

    async def died(self, number: int, life: str) -> bool:
        """Whether the process `life` is no more; waits until the replica answers again."""
        watched = self._watched[number]
        if self.places.is_up(number) and watched.life in (None, life):
            self.lost(number)  # who asks has lost it: what was known is old
        try:
            async with asyncio.timeout(_VERDICT_S):
                await watched.back.wait()
        except TimeoutError:
            return True
        return watched.life != life

    async def _revive(self, number: int, watched: _Watched) -> None:
        pause_s = _FIRST_PAUSE_S
        while not await self._answers(watched):
            if watched.refusals >= _REFUSALS and self._all_refuse():
                assert watched.refusal is not None
                self.places.refuse(watched.refusal)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        watched.refusal, watched.refusals = None, 0
        watched.back.set()
        self.places.bring_back(number)

    async def _answers(self, watched: _Watched) -> bool:
        """Whether a replica has loaded what it should, and is there."""
        try:
            info = await watched.actor.info.remote()
            if self.expected is not None and info != self.expected:
                raise ConfigError(
                    f"pool {self.name}: a replica that was started again runs {info}, the run was "
                    f"planned for {self.expected}; is the checkpoint the same on every node?"
                )
            watched.life = await watched.actor.ready.remote()
        except RayTaskError as error:
            watched.refusals += 1
            cause = error.cause
            watched.refusal = (
                cause
                if isinstance(cause, ToolformerError)
                else ToolformerError(f"pool {self.name}: a replica cannot load: {cause!r}")
            )
        except ConfigError as error:
            watched.refusals, watched.refusal = watched.refusals + 1, error
        except GONE:
            watched.refusal, watched.refusals = None, 0
        else:
            return watched.life is not None
        return False

    def _all_refuse(self) -> bool:
        return not self.places.num_up and all(w.refusals >= _REFUSALS for w in self._watched)

    def _empty(self, empty: bool) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if empty:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._patience_s, self._give_up)

    def _give_up(self) -> None:
        known = next((w.refusal for w in self._watched if w.refusal is not None), None)
        self.places.refuse(
            known
            or ToolformerError(
                f"pool {self.name}: none of its {len(self._watched)} replicas answered for "
                f"{self._patience_s:g} s: they die of loading, or find no node; see what they need "
                "(GPUs, memory, files), and run the same command again to continue"
            )
        )


class Dispatcher:
    """Gives the requests of all stages, and of replicas to other pools, their replicas.

    What it knows is lost when it is started again, which does no harm: it gives a place that is
    taken, and the gate of that replica lets the request wait.
    """

    def __init__(self, pools: Sequence[PoolMembers], patience_s: float = PATIENCE_S) -> None:
        self._members, self._patience_s = pools, patience_s
        self._pools = {members.name: _Pool(members, patience_s) for members in pools}
        self._attempts = Attempts()

    async def acquire(self, pool: str, key: Key, turn: Turn, alone: bool = False) -> int:
        """The number of the replica in `pool` that has a place for `key`; waits for it.

        Raises:
            ToolformerError: no replica of the pool came back in time, or each refuses to load.
        """
        places = self._pools[pool].places
        number = await places.acquire(key, turn, alone=alone)
        show_waiting(pool, places.num_waiting)
        return number

    async def release(self, pool: str, key: Key) -> None:
        places = self._pools[pool].places
        places.release(key)
        show_waiting(pool, places.num_waiting)

    async def lost(self, pool: str, key: Key, number: int) -> None:
        """`key` gives its place back, as the replica is gone: nobody is sent there for now."""
        _logger.warning("pool %s: replica %d is lost", pool, number)
        count_lost_replica(pool)
        actor_id = self._pools[pool].lost(number)
        self._pools[pool].places.release(key)
        await self.began(actor_id, "")  # what it asked of other pools

    async def unloaded(self, pool: str, key: Key, number: int) -> None:
        """The same of a replica that answers, but has not loaded its weights."""
        self._pools[pool].lost(number)
        self._pools[pool].places.release(key)

    async def died(self, pool: str, number: int, life: str) -> bool:
        """Whether the process `life` of a replica that was lost is no more, or only out of reach.

        Waits until the replica answers again, at most some minutes.
        """
        return await self._pools[pool].died(number, life)

    async def began(self, holder: str, life: str) -> None:
        """An actor has been started: what it held in an earlier life is free."""
        for pool in self._pools.values():
            pool.places.free(holder, but=life)

    async def stages_ended(self) -> None:
        """Between two waves: only replicas may still hold places.

        A stage that dies at the end of its wave has no successor of its id that frees its own.
        """
        replicas = {_id_of(replica) for members in self._members for replica in members.replicas}
        for pool in self._pools.values():
            pool.places.free_all_but(replicas)

    async def expect(self, pool: str, info: EngineInfo | None) -> None:
        """A replica that is started again must load exactly this; None: whatever it says."""
        self._pools[pool].expected = info

    async def replicas_up(self) -> dict[str, tuple[int, int]]:
        """For each pool, how many of its replicas answer, and how many there are."""
        return {
            members.name: (self._pools[members.name].places.num_up, len(members.replicas))
            for members in self._members
        }

    async def begin(self, works: Sequence[Work]) -> list[int]:
        """See Attempts."""
        return self._attempts.begin(works)

    async def end(self, works: Sequence[Work]) -> None:
        """See Attempts."""
        self._attempts.end(works)


def _id_of(actor: Any) -> str:
    return str(actor._actor_id.hex())


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
