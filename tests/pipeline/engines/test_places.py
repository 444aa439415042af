"""Whose turn it is for a replica: pure asyncio, numbers by hand."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from pipeline.engines.gate import Turn
from pipeline.engines.places import Key, Places
from tools.base import ToolformerError

SAMPLE, SCORE = Turn.SAMPLE_UNIT, Turn.SCORE_UNIT


class Asked:
    """Requests for places, and in which order they were granted, with the replica."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.tasks: set[asyncio.Task[None]] = set()
        self.granted: list[tuple[int, int]] = []

    async def ask(self, *numbers: int, turn: Turn = SAMPLE, alone: bool = False) -> None:
        for number in numbers:
            self.tasks.add(asyncio.create_task(self._ask(number, turn, alone)))
        await settle()

    async def release(self, *numbers: int) -> None:
        for number in numbers:
            self._places.release(key(number))
        await settle()

    async def _ask(self, number: int, turn: Turn, alone: bool) -> None:
        replica = await self._places.acquire(key(number), turn, alone=alone)
        self.granted.append((number, replica))


def key(number: int, *, holder: str = "stage", life: str = "first") -> Key:
    return Key(holder, life, number)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, timeout=10))


def test_units_spread_over_replicas_and_wait_for_the_first_that_is_free() -> None:
    async def test() -> None:
        asked = Asked(Places(replicas=2, at_once=1))
        await asked.ask(1, 2, 3, 4)
        assert asked.granted == [(1, 0), (2, 1)]
        # 1 is slow: everything that waits goes through the other replica, one after the other.
        await asked.release(2)
        await asked.release(3)
        assert asked.granted == [(1, 0), (2, 1), (3, 1), (4, 1)]

    run(test())


def test_scores_come_before_samples_and_otherwise_who_comes_first() -> None:
    async def test() -> None:
        asked = Asked(Places(replicas=1, at_once=1))
        await asked.ask(1, 2, 3)
        await asked.ask(4, 5, turn=SCORE)
        for number in (1, 4, 5, 2):
            await asked.release(number)
        assert [number for number, _ in asked.granted] == [1, 4, 5, 2, 3]

    run(test())


def test_a_replica_bears_as_many_at_once_as_it_says() -> None:
    async def test() -> None:
        asked = Asked(Places(replicas=2, at_once=3))
        await asked.ask(*range(8))
        assert [replica for _, replica in asked.granted] == [0, 1, 0, 1, 0, 1]

    run(test())


def test_who_wants_a_replica_alone_gets_one_that_is_emptied_for_it() -> None:
    async def test() -> None:
        asked = Asked(Places(replicas=2, at_once=2))
        await asked.ask(1, 2, 3)  # replica 0 has 1 and 3
        await asked.ask(10, alone=True)  # waits for replica 1, which has 2
        await asked.ask(4, 5)
        assert asked.granted == [(1, 0), (2, 1), (3, 0)]
        await asked.release(1)
        assert asked.granted[3:] == [(4, 0)]  # others go on elsewhere meanwhile
        await asked.release(2)
        assert asked.granted[4:] == [(10, 1)]
        await asked.release(3)
        assert asked.granted[5:] == [(5, 0)]
        await asked.ask(6)
        await asked.release(10)
        assert asked.granted[6:] == [(6, 1)]

    run(test())


def test_a_lost_replica_gets_nothing_until_it_is_back() -> None:
    async def test() -> None:
        told: list[bool] = []
        places = Places(replicas=2, at_once=1, empty=told.append)
        asked = Asked(places)
        places.take_out(0)
        await asked.ask(1, 2)
        assert asked.granted == [(1, 1)] and told == []
        places.take_out(1)
        await asked.release(1)
        assert asked.granted == [(1, 1)] and told == [True]
        places.bring_back(0)
        await settle()
        assert asked.granted == [(1, 1), (2, 0)] and told == [True, False]

    run(test())


def test_who_wanted_the_lost_replica_alone_gets_another() -> None:
    async def test() -> None:
        places = Places(replicas=2, at_once=1)
        asked = Asked(places)
        await asked.ask(1, 2)
        await asked.ask(10, alone=True)
        places.take_out(0)
        await asked.release(2)
        assert asked.granted[2:] == [(10, 1)]

    run(test())


def test_a_holder_that_is_started_again_gives_back_what_it_held() -> None:
    async def test() -> None:
        places = Places(replicas=1, at_once=2)
        assert await places.acquire(key(1), SAMPLE) == 0
        assert await places.acquire(key(1, holder="other"), SAMPLE) == 0
        waiting = asyncio.create_task(places.acquire(key(2), SAMPLE))
        await settle()
        places.free("stage", but="second")
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await places.acquire(key(1, life="second"), SAMPLE) == 0
        places.free("stage", but="second")  # what it holds in this life it keeps
        assert places.num_waiting == 0
        third = asyncio.create_task(places.acquire(key(3, life="second"), SAMPLE))
        await settle()
        assert places.num_waiting == 1
        places.release(key(1, holder="other"))
        assert await third == 0

    run(test())


def test_stages_that_ended_hold_nothing_and_wait_for_nothing() -> None:
    async def test() -> None:
        places = Places(replicas=2, at_once=1)
        assert await places.acquire(key(1), SAMPLE) == 0
        assert await places.acquire(key(1, holder="replica"), SAMPLE) == 1
        alone = asyncio.create_task(places.acquire(key(2), SAMPLE, alone=True))
        later = asyncio.create_task(places.acquire(key(2, holder="replica"), SAMPLE))
        await settle()
        assert places.num_waiting == 2  # and replica 0 is kept for the first of them
        places.free_all_but({"replica"})
        with pytest.raises(asyncio.CancelledError):
            await alone
        assert await later == 0
        places.free_all_but({"replica"})
        third = asyncio.create_task(places.acquire(key(3, holder="new"), SAMPLE))
        await settle()
        assert not third.done()  # a replica keeps what it holds
        places.release(key(1, holder="replica"))
        assert await third == 1

    run(test())


def test_a_request_that_is_repeated_takes_one_place() -> None:
    async def test() -> None:
        places = Places(replicas=1, at_once=1)
        assert [await places.acquire(key(1), SAMPLE) for _ in range(2)] == [0, 0]
        twice = [asyncio.create_task(places.acquire(key(2), SAMPLE)) for _ in range(2)]
        await settle()
        assert places.num_waiting == 1
        places.release(key(1))
        assert await asyncio.gather(*twice) == [0, 0]
        places.release(key(2))
        assert await places.acquire(key(3), SAMPLE) == 0

    run(test())


def test_how_many_wait_is_shown_while_they_wait() -> None:
    async def test() -> None:
        shown: list[int] = []
        places = Places(replicas=1, at_once=1, changed=lambda: shown.append(places.num_waiting))
        asked = Asked(places)
        await asked.ask(1, 2, 3)
        assert shown == [0, 1, 2]
        await asked.release(1)
        places.take_out(0)
        places.refuse(ToolformerError("no replica answers"))
        assert shown == [0, 1, 2, 1, 1, 0]
        await asyncio.gather(*asked.tasks, return_exceptions=True)

    run(test())


def test_what_a_dispatcher_does_not_remember_is_given_back_without_harm() -> None:
    async def test() -> None:
        places = Places(replicas=1, at_once=1)
        places.release(key(7))
        places.free("nobody")
        assert await places.acquire(key(1), SAMPLE) == 0

    run(test())


def test_when_nothing_comes_back_all_that_wait_and_come_are_refused() -> None:
    async def test() -> None:
        places = Places(replicas=1, at_once=1)
        places.take_out(0)
        waiting = asyncio.create_task(places.acquire(key(1), SAMPLE))
        await settle()
        places.refuse(ToolformerError("no replica answers"))
        for asked in (waiting, asyncio.create_task(places.acquire(key(2), SAMPLE))):
            with pytest.raises(ToolformerError, match="no replica answers"):
                await asked
        places.bring_back(0)  # late, but there: a command that still runs goes on
        assert await places.acquire(key(3), SAMPLE) == 0

    run(test())
