"""The replicas of one pool as the dispatcher knows them: which are up, and back when lost."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ray.exceptions import RayTaskError

from pipeline.engines.gone import GONE
from pipeline.engines.lives import running
from pipeline.engines.metrics import show_waiting
from pipeline.engines.places import Places
from pipeline.engines.protocol import EngineInfo
from tools.base import ConfigError, ToolformerError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 2.0
# So often in a row every replica of a pool must refuse to load before that is final.
_REFUSALS = 3
# Until it is known whether a process that was lost has died, or it is taken to have.
_VERDICT_S = 180.0


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


class WatchedPool:
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
        self._free(id_of(watched.actor), await self._running(watched))

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


def id_of(actor: Any) -> str:
    return str(actor._actor_id.hex())
