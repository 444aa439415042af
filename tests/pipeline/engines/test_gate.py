"""Whose turn it is: order, bounds, and that nothing is lost when work fails or is given up."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from pipeline.engines.gate import Gate, Turn


class Work:
    """Takes turns and says in which order they came and how much ran at once."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.order: list[str] = []
        self.most = self.most_tokens = self._tokens = 0

    async def one(self, name: str, turn: Turn, tokens: int = 0, steps: int = 3) -> None:
        async with self.gate.turn(turn, tokens):
            self.order.append(name)
            self._tokens += tokens
            self.most = max(self.most, self.gate.running)
            self.most_tokens = max(self.most_tokens, self._tokens)
            for _ in range(steps):
                await asyncio.sleep(0)
            self._tokens -= tokens


def running(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), timeout=60))


def test_later_stages_come_first_then_the_earliest() -> None:
    async def test() -> None:
        work = Work(Gate(at_once=1))
        turns = [
            ("first", Turn.POSITION), ("p1", Turn.POSITION), ("u1", Turn.SAMPLE_UNIT),
            ("c1", Turn.SCORE_UNIT), ("u2", Turn.SAMPLE_UNIT), ("l", Turn.LOSS),
            ("c2", Turn.SCORE_UNIT), ("p2", Turn.POSITION),
        ]  # fmt: skip
        await asyncio.gather(*(work.one(name, turn) for name, turn in turns))
        assert work.order == ["first", "l", "c1", "c2", "u1", "u2", "p1", "p2"]
        assert work.most == 1

    running(test)


def test_no_more_run_at_once_than_the_engine_bears() -> None:
    async def test() -> None:
        work = Work(Gate(at_once=4))
        await asyncio.gather(*(work.one(str(i), Turn.SAMPLE_UNIT) for i in range(11)))
        assert work.most == 4
        assert work.order == [str(i) for i in range(11)]
        assert work.gate.running == 0

    running(test)


def test_tokens_in_flight_are_bounded_and_a_large_unit_runs_alone() -> None:
    async def test() -> None:
        work = Work(Gate(at_once=4, max_tokens=100))
        tokens = {"a": 60, "b": 40, "c": 1, "large": 1000, "d": 50, "e": 50}
        await asyncio.gather(
            *(work.one(name, Turn.SAMPLE_UNIT, count) for name, count in tokens.items())
        )
        assert work.order == list(tokens)  # nothing small overtakes what is before it
        assert work.most_tokens == 1000

    async def without_the_large_one() -> None:
        work = Work(Gate(at_once=4, max_tokens=100))
        await asyncio.gather(
            *(work.one(str(i), Turn.SAMPLE_UNIT, count) for i, count in enumerate([60, 40, 1, 99]))
        )
        assert (work.most_tokens, work.most) == (100, 2)

    running(test)
    running(without_the_large_one)


def test_an_error_gives_its_turn_back() -> None:
    async def test() -> None:
        work = Work(Gate(at_once=1, max_tokens=10))

        async def failing() -> None:
            async with work.gate.turn(Turn.LOSS, 10):
                await asyncio.sleep(0)
                raise ValueError("torn")

        results = await asyncio.gather(
            failing(), work.one("next", Turn.LOSS, 10), return_exceptions=True
        )
        assert isinstance(results[0], ValueError)
        assert work.order == ["next"]
        assert work.gate.running == 0

    running(test)


@pytest.mark.parametrize("moment", ["waits", "is admitted", "runs"])
def test_work_that_is_given_up_holds_up_nothing(moment: str) -> None:
    async def test() -> None:
        gate = Gate(at_once=1)
        work = Work(gate)
        first = asyncio.create_task(work.one("first", Turn.POSITION, steps=5))
        await asyncio.sleep(0)
        given_up = asyncio.create_task(work.one("given up", Turn.LOSS, steps=10**9))
        behind = asyncio.create_task(work.one("behind", Turn.POSITION))
        await asyncio.sleep(0)
        if moment == "is admitted":
            while gate.waiting(Turn.LOSS):
                await asyncio.sleep(0)
            assert work.order == ["first"]  # it has its turn, and has not yet woken
        elif moment == "runs":
            while "given up" not in work.order:
                await asyncio.sleep(0)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await asyncio.gather(first, behind)
        assert [name for name in work.order if name != "given up"] == ["first", "behind"]
        assert gate.running == 0

    running(test)


def test_a_reload_waits_for_what_runs_and_holds_up_the_rest() -> None:
    async def test() -> None:
        work = Work(Gate(at_once=3))
        alone: list[int] = []

        async def reload() -> None:
            async with work.gate.turn(Turn.RELOAD):
                for _ in range(5):
                    alone.append(work.gate.running)
                    await asyncio.sleep(0)
                work.order.append("reloaded")

        await asyncio.gather(
            work.one("a", Turn.SAMPLE_UNIT), work.one("b", Turn.SAMPLE_UNIT), reload(),
            work.one("c", Turn.LOSS), work.one("d", Turn.SAMPLE_UNIT),
        )  # fmt: skip
        assert alone == [1] * 5
        assert work.order == ["a", "b", "reloaded", "c", "d"]
        assert work.most == 2

    running(test)


def test_what_waits_is_counted_by_stage() -> None:
    async def test() -> None:
        seen: list[tuple[int, int]] = []
        gate = Gate(
            at_once=1, changed=lambda: seen.append((gate.running, gate.waiting(Turn.SCORE_UNIT)))
        )
        work = Work(gate)
        await asyncio.gather(*(work.one(name, Turn.SCORE_UNIT) for name in "abc"))
        assert seen == [(1, 0), (1, 1), (1, 2), (1, 1), (1, 0), (0, 0)]

    running(test)
