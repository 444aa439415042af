"""Clients and a dispatcher without Ray: links that break, and processes that come late or twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from ray.exceptions import RayActorError, TaskCancelledError

from pipeline.engines.asking import PoolClient
from pipeline.engines.dispatcher import Dispatcher
from pipeline.engines.gate import Turn
from pipeline.engines.gone import ReplicaLost
from pipeline.engines.lives import ENDED
from pipeline.engines.places import Key
from pipeline.engines.watched_pool import PoolMembers

SAMPLE = Turn.SAMPLE_UNIT


class Handle:
    """An object of this process as Ray shows an actor to those that ask it."""

    def __init__(self, actor: Any, *, broken: bool = False) -> None:
        self._actor, self._broken = actor, broken
        self._actor_id = getattr(actor, "actor_id", b"")

    def __getattr__(self, name: str) -> "Method":
        return Method(lambda *arguments: self._answer(name, arguments))

    async def _answer(self, name: str, arguments: tuple[Any, ...]) -> Any:
        await asyncio.sleep(0)
        if self._broken or (self._actor_id and self._actor.state in ENDED):
            raise RayActorError
        try:
            return await getattr(self._actor, name)(*arguments)
        except asyncio.CancelledError:
            raise TaskCancelledError from None

    def _get_local_state(self) -> int | None:
        state: int | None = self._actor.state
        return state


class Method:
    """Of an actor; called whether or not somebody waits for the answer."""

    def __init__(self, answer: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._answer = answer
        self._tasks: list[asyncio.Task[Any]] = []

    def remote(self, *arguments: Any) -> "asyncio.Task[Any]":
        self._tasks.append(asyncio.create_task(self._answer(*arguments)))
        return self._tasks[-1]


class Replica:
    """Loaded, and at work on nothing; `life` is its process."""

    def __init__(self, name: bytes) -> None:
        self.actor_id, self.life = name, "1"
        self.state: int | None = None

    async def info(self) -> str:
        return "as planned"

    async def ready(self) -> str:
        return self.life

    async def work(self) -> str:
        return self.life


class World:
    """One replica in each of two pools, known to a dispatcher."""

    def __init__(self) -> None:
        self.one, self.other = Replica(b"one"), Replica(b"other")
        self.dispatcher = Dispatcher(
            [
                PoolMembers(name="one", replicas=[Handle(self.one)], at_once=1),
                PoolMembers(name="other", replicas=[Handle(self.other)], at_once=1),
            ]
        )

    def client(self, *, broken: bool = False) -> PoolClient:
        replicas = [Handle(self.one, broken=broken)]
        return PoolClient("one", replicas, Handle(self.dispatcher), pause_s=0.0)

    async def up(self) -> int:
        up, _ = (await self.dispatcher.replicas_up())["one"]
        return up

    async def back(self) -> None:
        while not await self.up():
            await asyncio.sleep(0.01)

    async def free_elsewhere(self) -> bool:
        """Whether the other pool has a place."""
        probe = Key("probe", "1", 1)
        try:
            async with asyncio.timeout(0.1):
                await self.dispatcher.acquire("other", probe, SAMPLE)
        except TimeoutError:
            return False
        finally:
            await self.dispatcher.release("other", probe)
        return True


def key(number: int, holder: bytes = b"stage", life: str = "1") -> Key:
    return Key(holder.hex(), life, number)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, timeout=20))


def test_what_is_said_late_of_an_earlier_process_takes_nobody_out() -> None:
    async def test() -> None:
        world = World()
        lost, unloaded = world.dispatcher.lost, world.dispatcher.unloaded
        assert await world.dispatcher.acquire("one", key(1), SAMPLE) == (0, None)
        world.one.life = "2"
        await lost("one", key(1), 0, "1")
        assert await world.up() == 0
        await world.back()
        for late in (None, "1"):
            await lost("one", key(2), 0, late)
            await unloaded("one", key(2), 0, late)
        assert await world.up() == 1
        assert await world.dispatcher.acquire("one", key(3), SAMPLE) == (0, "2")
        await lost("one", key(3), 0, "2")
        assert await world.up() == 0

    run(test())


def test_a_lost_replica_that_runs_on_keeps_what_it_holds_elsewhere() -> None:
    async def test() -> None:
        world = World()
        await world.dispatcher.acquire("other", key(1, holder=b"one"), SAMPLE)
        await world.dispatcher.lost("one", key(2), 0, "1")
        await world.back()
        assert not await world.dispatcher.died("one", 0, "1")
        assert not await world.free_elsewhere()
        world.one.life = "2"
        await world.dispatcher.lost("one", key(3), 0, "1")
        await world.back()
        assert await world.dispatcher.died("one", 0, "1")
        assert await world.free_elsewhere()

    run(test())


@pytest.mark.parametrize("state", ENDED)
def test_a_replica_of_which_ray_says_that_it_ended_holds_nothing(state: int) -> None:
    async def test() -> None:
        world = World()
        await world.dispatcher.acquire("other", key(1, holder=b"one"), SAMPLE)
        world.one.state = state
        await world.dispatcher.lost("one", key(2), 0, "1")
        assert await world.dispatcher.died("one", 0, "1")
        assert await world.free_elsewhere()
        assert await world.up() == 0

    run(test())


def test_who_waits_and_is_taken_for_another_process_asks_again() -> None:
    async def test() -> None:
        world = World()
        await world.dispatcher.acquire("one", key(1), SAMPLE)
        waiting = asyncio.create_task(world.client().ask(SAMPLE, "work"))
        await asyncio.sleep(0.05)
        await world.dispatcher.began("driver", "another life")
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await world.dispatcher.stages_ended()  # frees the place as well
        assert await waiting == "1"

    run(test())


def test_a_link_that_is_broken_on_one_side_is_not_tried_for_ever() -> None:
    async def test() -> None:
        world = World()
        with pytest.raises(ReplicaLost) as lost:
            await world.client(broken=True).ask(SAMPLE, "work")
        assert (lost.value.number, lost.value.life) == (0, "")
        assert not await world.client().died(lost.value)
        assert await world.client().ask(SAMPLE, "work") == "1"

    run(test())


def test_two_clients_of_a_process_hold_a_place_each() -> None:
    async def test() -> None:
        world = World()
        clients = [world.client() for _ in range(2)]
        asked = [client.ask(SAMPLE, "work") for client in clients for _ in range(5)]
        assert await asyncio.gather(*asked) == ["1"] * 10

    run(test())
