"""The loop, the environment and the new weights of a vLLM, without vLLM."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from contextvars import Context
from types import FrameType
from typing import TypeVarTuple

import pytest

from pipeline.engines import vllm_core
from pipeline.engines.gone import EngineDied
from pipeline.engines.vllm_core import reload_weights
from pipeline.engines.vllm_loop import Running, run, stop, stream
from pipeline.engines.vllm_start import CoreSettings, environment
from tools.base import ConfigError

Ts = TypeVarTuple("Ts")


class ReloadingLLM:
    """An AsyncLLM whose cache is in use for so many resets."""

    def __init__(self, resets_in_vain: int) -> None:
        self.resets_in_vain = resets_in_vain
        self.done: list[str] = []

    async def collective_rpc(self, method: str, kwargs: dict[str, str]) -> None:
        self.done.append(f"{method} {kwargs['weights_path']}")
        if kwargs["weights_path"] == "torn":
            raise Exception("Call to collective_rpc method failed:\n a tensor is missing")

    async def reset_prefix_cache(self) -> bool:
        self.done.append("reset")
        return self.done.count("reset") > self.resets_in_vain


def test_the_cache_is_reset_until_nothing_is_left_in_it() -> None:
    llm = ReloadingLLM(resets_in_vain=2)
    asyncio.run(reload_weights(llm, "new"))
    assert llm.done == ["reload_weights new", "reset", "reset", "reset"]


def test_a_cache_that_stays_in_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_core, "_RESET_PAUSE_S", 0.0)
    with pytest.raises(ConfigError, match="new: vLLM keeps what it computed with the weights bef"):
        asyncio.run(reload_weights(ReloadingLLM(resets_in_vain=1000), "new"))


def test_what_fails_in_vllms_core_becomes_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^torn: vLLM cannot load its weights: .* failed: a ten"):
        asyncio.run(reload_weights(ReloadingLLM(resets_in_vain=0), "torn"))


@pytest.fixture
def running() -> Iterator[Running]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    running = Running(loop, thread, None)
    yield running
    stop(running)


class Interrupted(BaseException):
    pass


def test_who_is_interrupted_leaves_nothing_at_work(running: Running) -> None:
    ended: list[bool] = []

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise Interrupted

    async def work() -> None:
        signal.pthread_kill(main, signal.SIGUSR1)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            run(running, work())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended == [True]


class InterruptedLoop(asyncio.SelectorEventLoop):
    """A loop whose caller is interrupted while it hands over the first thing to do."""

    before_it_is_there: bool
    interrupted = False

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        interrupt, self.interrupted = not self.interrupted, True
        if interrupt and self.before_it_is_there:
            raise Interrupted
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        if interrupt:
            raise Interrupted
        return handle


@pytest.mark.parametrize("before_it_is_there", [False, True])
def test_who_is_interrupted_at_the_handing_over_leaves_nothing_at_work(
    before_it_is_there: bool,
) -> None:
    loop = InterruptedLoop()
    loop.before_it_is_there = before_it_is_there
    running = Running(loop, threading.Thread(target=loop.run_forever), None)
    running.thread.start()
    work = asyncio.sleep(60)
    with pytest.raises(Interrupted):
        run(running, work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    stop(running)


def test_an_error_of_the_coroutine_is_raised_and_its_answer_returned(running: Running) -> None:
    async def answer(text: str) -> int:
        return int(text)

    assert run(running, answer("3")) == 3
    with pytest.raises(ValueError, match="'x'"):
        run(running, answer("x"))


def test_what_one_loop_yields_crosses_to_another_in_order(running: Running) -> None:
    threads: set[int] = set()

    async def numbers() -> AsyncIterator[int]:
        threads.add(threading.get_ident())
        for number in range(100):
            yield number
            if number % 10 == 0:
                await asyncio.sleep(0)
        raise ValueError("that was all")

    async def read() -> list[int]:
        found = []
        with pytest.raises(ValueError, match="that was all"):
            async for number in stream(running, numbers):
                found.append(number)
        return found

    assert asyncio.run(read()) == list(range(100))
    assert threads == {running.thread.ident}


class Endless:
    """Numbers without end, as long as somebody reads them."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    async def numbers(self) -> AsyncIterator[int]:
        try:
            yield 0
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


def test_who_closes_a_stream_cancels_what_it_comes_from(running: Running) -> None:
    endless = Endless()

    async def read() -> None:
        async with aclosing(stream(running, endless.numbers)) as numbers:
            assert await anext(numbers) == 0

    asyncio.run(read())
    assert endless.cancelled.wait(60)


def test_who_is_cancelled_in_a_stream_cancels_what_it_comes_from(running: Running) -> None:
    endless = Endless()

    async def read() -> None:
        task = asyncio.current_task()
        assert task is not None
        async for _ in stream(running, endless.numbers):
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(read())
    assert endless.cancelled.wait(60)


def test_a_stream_ends_with_the_loop_it_comes_from() -> None:
    loop = asyncio.new_event_loop()
    running = Running(loop, threading.Thread(target=loop.run_forever), None)
    running.thread.start()

    async def read() -> None:
        async for _ in stream(running, Endless().numbers):
            await asyncio.to_thread(stop, running)

    with pytest.raises(EngineDied, match="vLLM was stopped"):
        asyncio.run(read())


SETTINGS = CoreSettings(
    path="", revision=None, dtype="float32", device="cpu", context_length=1, num_threads=3,
    tensor_parallel_size=1, distributed_executor_backend=None, max_num_batched_tokens=1,
    max_num_seqs=1, gpu_memory_utilization=0.9,
)  # fmt: skip


def test_the_environment_is_as_before_after_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("TAKEN_AWAY", "x")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    monkeypatch.delenv("PYTHONWARNINGS", raising=False)
    before = dict(os.environ)
    with environment(SETTINGS):
        assert os.environ["OMP_NUM_THREADS"] == "3"
        assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"  # what a user says comes first
        assert os.environ["PYTHONWARNINGS"] == "ignore"
        os.environ["OF_VLLM"] = "x"
        del os.environ["TAKEN_AWAY"]
    assert dict(os.environ) == before


def test_the_environment_of_other_threads_never_goes_away() -> None:
    name, missing, over = "PATH", [], threading.Event()

    def look() -> None:
        while not over.is_set():
            if name not in os.environ:
                missing.append(name)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        with environment(SETTINGS):
            pass
    over.set()
    thread.join()
    assert not missing


CHILD = """
import os, time
from pipeline.engines.vllm_worker import WorkerExtension
WorkerExtension().die_with(os.getppid())
print("at work", flush=True)
time.sleep(30)
print("alive")
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends a process with its parent")
def test_the_worker_dies_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "at work\n"
        parent.kill()
        assert parent.stdout.read() == ""  # comes when nobody has the pipe any more
