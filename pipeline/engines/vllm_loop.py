"""The thread and the event loop an AsyncLLM lives in."""

import asyncio
import gc
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

from pipeline.engines.gone import EngineDied

Answer = TypeVar("Answer")
Item = TypeVar("Item")


@dataclass(slots=True)
class Running:
    """An AsyncLLM and the loop it lives in, which runs in a thread of its own."""

    loop: asyncio.AbstractEventLoop
    thread: threading.Thread
    llm: Any  # AsyncLLM; None once stopped


def run(running: Running, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """What `coroutine` returns. If the caller is interrupted, it is cancelled and waited for."""
    ended: SimpleQueue[None] = SimpleQueue()  # unlike an Event, whole if a signal comes inside it
    tasks: list[asyncio.Task[Answer]] = []

    def begin() -> None:
        tasks.append(running.loop.create_task(coroutine))
        tasks[0].add_done_callback(lambda _: ended.put(None))

    def cancel() -> None:
        if not tasks:
            coroutine.close()
        if not tasks or not tasks[0].cancel():
            ended.put(None)

    try:
        running.loop.call_soon_threadsafe(begin)
        ended.get()
    except BaseException:
        running.loop.call_soon_threadsafe(cancel)
        ended.get()
        raise
    return tasks[0].result()


async def stream(
    running: Running, items: Callable[[], AsyncIterator[Item]]
) -> AsyncGenerator[Item, None]:
    """What `items` yields in the loop of `running`, in that of the caller.

    It is cancelled once the caller wants no more.

    Raises:
        EngineDied: the loop of `running` was stopped meanwhile.
    """
    here = asyncio.get_running_loop()
    arrived: asyncio.Queue[Item | None] = asyncio.Queue()  # None: that was all

    async def pass_on() -> None:
        async for item in items():
            here.call_soon_threadsafe(arrived.put_nowait, item)

    passing = asyncio.run_coroutine_threadsafe(pass_on(), running.loop)
    passing.add_done_callback(lambda _: here.call_soon_threadsafe(arrived.put_nowait, None))
    try:
        while (item := await arrived.get()) is not None:
            yield item
        if passing.cancelled():
            raise EngineDied("vLLM was stopped while it was at work")
        passing.result()
    finally:
        passing.cancel()


def stop(running: Running) -> None:
    """End the processes, the loop and its thread."""
    if threading.current_thread() is running.thread:  # a request of the loop was the last to know
        threading.Thread(target=stop, args=(running,)).start()
        return
    # First what waits for answers: it would take the end of the processes for their death.
    asyncio.run_coroutine_threadsafe(_cancel_all(), running.loop).result()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        llm, running.llm = running.llm, None
        if llm is not None:
            llm.shutdown()
        # What is left is deleted here and not, with complaints, at any time or at exit.
        del llm
        gc.collect()
    running.loop.call_soon_threadsafe(running.loop.stop)
    running.thread.join()
    running.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
