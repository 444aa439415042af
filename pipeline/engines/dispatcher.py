"""The actor that knows which replicas are free and which are gone, for all stages of a run."""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayTaskError
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipeline.attempts import Attempts, Work
from pipeline.engines.gate import Turn
from pipeline.engines.gone import GONE
from pipeline.engines.lives import running
from pipeline.engines.metrics import count_lost_replica, show_waiting
from pipeline.engines.places import Key, Places
from pipeline.engines.protocol import EngineInfo
from tools.base import ConfigError, ToolformerError

# A cluster may need this long to put another node in the place of one that went.
PATIENCE_S = 1800.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# So often in a row every replica of a pool must refuse to load before that is final.
_REFUSALS = 3
# Until it is known whether a process that was lost has died, or it is taken to have.
_VERDICT_S = 180.0

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


class _Pool:
    """One pool: its places, and the replicas that are watched until they are back.

    `free(actor, life)` is told of a replica that was lost once it is known which process of it
    runs: what others of them held elsewhere is free.
    """

    def __init__(
        self, members: PoolMembers, patience_s: float, free: Callable[[str, str], None]
    ) -> None:
        self.name = members.name
        self.places = Places(
            replicas=len(members.replicas),
            at_once=members.at_once,
            empty=self._empty,
            changed=lambda: show_waiting(members.name, self.places.num_waiting),
        )
        self.expected: EngineInfo | None = None
        self._watched = [_Watched(actor) for actor in members.replicas]
        self._patience_s = patience_s
        self._free = free
        self._tasks: set[asyncio.Task[None]] = set()
        self._giving_up: asyncio.TimerHandle | None = None

    def life_of(self, number: int) -> str | None:
        """The process of a replica that answered last; None before it was first lost."""
        return self._watched[number].life

    def lost(self, number: int, life: str | None) -> bool:
        """Take a replica out until it answers.

        False where that changes nothing: it is out, or `life` is not its process any more.
        """
        watched = self._watched[number]
        if not self.places.is_up(number) or watched.life not in (None, life):
            return False
        self.places.take_out(number)
        for work in (self._revive(number, watched), self._free_elsewhere(watched)):
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    async def died(self, number: int, life: str) -> bool:
        """Whether the process `life` is no more; waits until that is known."""
        try:
            async with asyncio.timeout(_VERDICT_S):
                return await self._running(self._watched[number]) != life
        except TimeoutError:
            return True

    async def _running(self, watched: _Watched) -> str:
        pause_s = _FIRST_PAUSE_S
        while (life := await running(watched.actor)) is None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return life

    async def _free_elsewhere(self, watched: _Watched) -> None:
        # One that others cannot reach goes on with what it holds: only the dead give it back.
        self._free(_id_of(watched.actor), await self._running(watched))

    async def _revive(self, number: int, watched: _Watched) -> None:
        pause_s = _FIRST_PAUSE_S
        while not await self._answers(watched):
            if watched.refusals >= _REFUSALS and self._all_refuse():
                assert watched.refusal is not None
                self.places.refuse(watched.refusal)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        watched.refusal, watched.refusals = None, 0
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

    Where it is started again it knows no more who holds what, which does no harm: it gives a
    place that is taken, and the gate of that replica lets the request wait. What was begun and
    not ended it forgets as well: whatever is killed by that costs as many deaths again. What the
    replicas must run is kept outside.
    """

    def __init__(self, pools: Sequence[PoolMembers], patience_s: float = PATIENCE_S) -> None:
        self._members = pools
        self._pools = {members.name: _Pool(members, patience_s, self._free) for members in pools}
        for pool in self._pools.values():
            pool.expected = _remembered(pool.name)
        self._attempts = Attempts()

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

    async def release(
        self, pool: str, key: Key, number: int | None = None, life: str | None = None
    ) -> None:
        """Nobody is at work for `key` any more; the rest is of no interest, see `lost`."""
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
        replicas = {_id_of(replica) for members in self._members for replica in members.replicas}
        for pool in self._pools.values():
            pool.places.free_all_but(replicas)

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
        return self._attempts.begin(works, life)

    async def end(self, works: Sequence[Work]) -> None:
        """See Attempts."""
        self._attempts.end(works)


def _key(pool: str) -> str:
    return f"toolformer_expected:{ray.get_runtime_context().get_actor_id()}:{pool}"


def _remember(pool: str, info: EngineInfo | None) -> None:
    _internal_kv_put(_key(pool), json.dumps(info))


def _remembered(pool: str) -> EngineInfo | None:
    """What this actor was last told to expect, in this process or an earlier one."""
    kept = _internal_kv_get(_key(pool)) if ray.is_initialized() else None
    values = None if kept is None else json.loads(kept)
    return None if values is None else EngineInfo(*values)


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
