"""Replicas that die, refuse and come back, as those see it who ask them through a dispatcher."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayTaskError

from pipeline.engines.asking import PoolClient
from pipeline.engines.dispatcher import dispatcher_name, start_dispatcher
from pipeline.engines.gate import Turn
from pipeline.engines.gone import ReplicaLost
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.watched_pool import PoolMembers
from pipeline.pools import LMPool, Pools, wait_for_pools
from tests.pipeline.engines.demo_units import configured
from tools.base import ConfigError, ToolformerError

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]


class Replica:
    """Answers with its number; works as long as its file is there, which names its process."""

    def __init__(self, number: int, directory: Path) -> None:
        self._number, self._directory = number, directory
        self._loaded = False

    async def info(self) -> str:
        if (self._directory / "missing").exists():
            raise ConfigError("the checkpoint is missing on this node")
        self._loaded = True
        return "as planned"

    async def ready(self) -> str | None:
        return str(os.getpid()) if self._loaded else None

    async def has_a_place(self) -> bool:
        return True

    async def remark(self) -> str:
        if not (self._directory / "died-of-remark").exists():
            (self._directory / "died-of-remark").touch()
            os._exit(1)
        return "it is slow"

    async def work(self, what: str) -> int:
        (self._directory / f"began-{what}").write_text(str(os.getpid()))
        while (self._directory / f"hold-{what}").exists():
            await asyncio.sleep(0.02)
        return self._number


class Pool:
    """Replicas with a dispatcher and a client of them."""

    def __init__(self, directory: Path, replicas: int, patience_s: float = 60.0) -> None:
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(Replica)
        self.replicas = [actor.remote(number, directory) for number in range(replicas)]
        self.watch(at_once=1, patience_s=patience_s)

    def watch(self, *, at_once: int, patience_s: float = 60.0) -> None:
        """With a new dispatcher."""
        members = PoolMembers(name="all", replicas=self.replicas, at_once=at_once)
        self.dispatcher = start_dispatcher(dispatcher_name(), [members], patience_s=patience_s)
        self.client = PoolClient("all", self.replicas, self.dispatcher)

    def ask(self, what: str, alone: bool = False) -> "asyncio.Task[int]":
        return asyncio.create_task(self.client.ask(Turn.SAMPLE_UNIT, "work", what, alone=alone))

    async def all_up(self) -> None:
        deadline = time.monotonic() + 60
        while await self.dispatcher.replicas_up.remote() != {"all": (len(self.replicas),) * 2}:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def single(local_ray: None, files: Path) -> Pool:
    """A pool of one replica; every test leaves it as it was."""
    pool = Pool(files, replicas=1)
    ray.get(pool.replicas[0].info.remote())
    return pool


@pytest.fixture(scope="module")
def double(local_ray: None, files: Path) -> Pool:
    """A pool of two."""
    pool = Pool(files, replicas=2)
    ray.get([replica.info.remote() for replica in pool.replicas])
    return pool


async def until(fact: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@contextmanager
def held(files: Path, what: str) -> Iterator[None]:
    """Whoever works on `what` does not end while the body runs."""
    (files / f"hold-{what}").touch()
    yield
    (files / f"hold-{what}").unlink(missing_ok=True)


def test_a_slow_unit_delays_no_other_and_a_killed_replica_none_at_all(
    double: Pool, files: Path
) -> None:
    async def test() -> None:
        with held(files, "slow"):
            slow = double.ask("slow")
            await until((files / "began-slow").exists)
            others = [double.ask(str(number)) for number in range(6)]
            (elsewhere,) = set(await asyncio.gather(*others))
            assert not slow.done()
            ray.kill(double.replicas[1 - elsewhere], no_restart=False)
            with pytest.raises(ReplicaLost) as lost:
                await slow
        assert (lost.value.pool, lost.value.number) == ("all", 1 - elsewhere)
        assert await double.client.died(lost.value)
        await double.all_up()
        assert await double.ask("slow") in (0, 1)

    asyncio.run(test())


def test_a_replica_that_died_while_idle_is_laid_to_nobody(single: Pool) -> None:
    async def test() -> None:
        assert await single.ask("before") == 0
        ray.kill(single.replicas[0], no_restart=False)
        assert await single.ask("after") == 0

    asyncio.run(test())


def test_who_asks_alone_is_at_work_alone(single: Pool, files: Path) -> None:
    async def test() -> None:
        single.watch(at_once=2)
        with held(files, "alone"), held(files, "beside"):
            beside = single.ask("beside")
            await until((files / "began-beside").exists)
            alone = single.ask("alone", alone=True)
            await asyncio.sleep(0.2)
            assert not (files / "began-alone").exists()
            (files / "hold-beside").unlink()
            await until((files / "began-alone").exists)
            other = single.ask("other")
            await asyncio.sleep(0.2)
            assert not (files / "began-other").exists()
        assert set(await asyncio.gather(beside, alone, other)) == {0}
        single.watch(at_once=1)

    asyncio.run(test())


def test_a_dispatcher_that_is_started_again_goes_on(single: Pool, files: Path) -> None:
    async def test() -> None:
        with held(files, "long"):
            long = single.ask("long")
            await until((files / "began-long").exists)
            waiting = single.ask("waiting")
            ray.kill(single.dispatcher, no_restart=False)
            assert await waiting == 0  # it does not know that the place is taken
        assert await long == 0
        assert await single.ask("later") == 0

    asyncio.run(test())


def test_a_dispatcher_that_is_started_again_knows_what_replicas_must_run(
    single: Pool, files: Path
) -> None:
    async def test() -> None:
        planned = EngineInfo("scripted", "1", "cpu", "float32", 64, 260, "weights")
        await single.dispatcher.expect.remote("all", planned)
        ray.kill(single.dispatcher, no_restart=False)
        ray.kill(single.replicas[0], no_restart=False)
        with pytest.raises(RayTaskError) as error:
            await single.ask("what differs")
        line = "pool all: a replica that was started again runs as planned, the run was planned for"
        assert str(error.value.cause).startswith(f"{line} {planned}")
        await single.dispatcher.expect.remote("all", None)
        await single.all_up()

    asyncio.run(test())


def test_a_place_that_is_taken_back_from_the_living_is_asked_for_again(
    single: Pool, files: Path
) -> None:
    async def test() -> None:
        with held(files, "first"):
            first = single.ask("first")
            await until((files / "began-first").exists)
            waiting = single.ask("second")
            await asyncio.sleep(0.2)
            await single.dispatcher.began.remote("driver", "another life")
            assert await waiting == 0
        assert await first == 0

    asyncio.run(test())


class Stage:
    """Asks for something in an actor, as a stage does."""

    def __init__(self, replicas: list[Any], dispatcher: Any) -> None:
        self._client = PoolClient("all", replicas, dispatcher)

    async def ask(self, what: str) -> Any:
        return await self._client.ask(Turn.SAMPLE_UNIT, "work", what)


def test_a_stage_that_is_started_again_gives_back_its_places(single: Pool, files: Path) -> None:
    async def test() -> None:
        stage: Any = ray.remote(num_cpus=0, max_restarts=-1)(Stage).remote(
            single.replicas, single.dispatcher
        )
        with held(files, "of-stage"):
            stage.ask.remote("of-stage")
            await until((files / "began-of-stage").exists)
            waiting = single.ask("of-another")
            await asyncio.sleep(0.2)
            assert not waiting.done()
            ray.kill(stage, no_restart=False)
            assert await waiting == 0

    asyncio.run(test())


def test_a_pool_of_which_nothing_comes_back_ends_in_one_line(local_ray: None, files: Path) -> None:
    async def test() -> None:
        pool = Pool(files, replicas=1, patience_s=1.0)
        ray.kill(pool.replicas[0])  # for good
        with pytest.raises(RayTaskError) as error:
            await asyncio.gather(pool.ask("1"), pool.ask("2"))
        assert isinstance(error.value.cause, ToolformerError)
        line = "pool all: none of its 1 replicas answered for 1 s: they die of loading, or find no"
        assert str(error.value.cause).startswith(line)
        async with asyncio.timeout(60):  # Ray knows that it is no more
            assert await pool.client.died(ReplicaLost("all", 0, "its only process"))

    asyncio.run(test())


def test_what_refuses_to_load_is_left_out_and_says_why_when_none_is_left(
    double: Pool, files: Path
) -> None:
    async def test() -> None:
        (files / "missing").touch()
        ray.kill(double.replicas[0], no_restart=False)
        assert set(await asyncio.gather(*(double.ask(str(n)) for n in range(4)))) == {1}
        ray.kill(double.replicas[1], no_restart=False)
        with pytest.raises(RayTaskError) as error:
            await double.ask("none is left")
        (files / "missing").unlink()
        assert str(error.value.cause) == "the checkpoint is missing on this node"
        assert isinstance(error.value.cause, ConfigError)

    asyncio.run(test())


def test_of_a_pool_the_first_that_answers_says_how_it_runs(double: Pool) -> None:
    (plan,) = configured().pools
    members = PoolMembers(name=plan.name, replicas=double.replicas, at_once=1)
    pools = Pools(
        model=configured().model,
        language_models=[LMPool(plan=plan, replicas=double.replicas)],
        tools=[],
        dispatcher=start_dispatcher(dispatcher_name(), [members]),
    )
    told: list[str] = []
    planned: Any = {"position": "as planned"}
    wait_for_pools(pools, planned, {}, told.append)  # the first that is asked dies of it
    assert told == [f"pool {plan.name}: it is slow"]
