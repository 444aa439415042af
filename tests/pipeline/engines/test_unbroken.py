"""Work goes to its end whatever becomes of those that wait for it."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from pipeline.engines.unbroken import Once, to_its_end


def running(test: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), timeout=60))


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_cancellation_is_raised_when_the_work_has_ended(fails: bool) -> None:
    async def test() -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.create_task(to_its_end(work))
        await turns()
        for _ in range(2):  # a second cancellation changes nothing
            waiting.cancel()
            await turns()
            assert not waiting.done() and not work.cancelled()
        if fails:
            work.set_exception(ValueError("torn"))
        else:
            work.set_result(1)
        with pytest.raises(asyncio.CancelledError):
            await waiting

    running(test)


def test_what_nobody_cancels_returns_or_raises_as_it_is() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 1

    async def failure() -> int:
        raise ValueError("torn")

    async def test() -> None:
        assert await to_its_end(answer()) == 1
        with pytest.raises(ValueError, match="torn"):
            await to_its_end(failure())

    running(test)


class Loading:
    """Work that counts how often it began, and ends when it is let."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.begun += 1
        await self.may_end.wait()
        if self.fails:
            raise ValueError("torn")
        return 7


def test_a_load_that_the_first_stops_waiting_for_is_still_the_only_one() -> None:
    async def test() -> None:
        loading = Loading()
        once = Once(loading)
        first = asyncio.create_task(once.get())
        await turns()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        others = [asyncio.create_task(once.get()) for _ in range(2)]
        await turns()
        loading.may_end.set()
        assert await asyncio.gather(*others) == [7, 7]
        assert await once.get() == 7
        assert loading.begun == 1

    running(test)


def test_a_load_that_failed_is_tried_again() -> None:
    async def test() -> None:
        loading = Loading()
        once = Once(loading)
        loading.may_end.set()
        loading.fails = True
        failures = await asyncio.gather(once.get(), once.get(), return_exceptions=True)
        assert [type(failure) for failure in failures] == [ValueError, ValueError]
        assert loading.begun == 1
        loading.fails = False
        assert await once.get() == 7
        assert loading.begun == 2

    running(test)
