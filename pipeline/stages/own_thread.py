"""A thread for what must always run in the same one, and that no process waits for at its end."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")
_Work = SimpleQueue[Callable[[], None] | None]  # None: nobody is left who would give it more


class OwnThread:
    """Runs one function after the other; it ends when nobody holds it.

    Unlike the thread of a ThreadPoolExecutor, one that hangs does not keep its process from ending.
    """

    def __init__(self, name: str) -> None:
        self._work: _Work = SimpleQueue()
        weakref.finalize(self, self._work.put, None)
        threading.Thread(target=_run, args=(self._work,), name=name, daemon=True).start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """What the function returns or raises, once it is its turn."""
        future: Future[Result] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:
                    future.set_exception(error)

        self._work.put(run)
        return future


def _run(work: _Work) -> None:
    while (function := work.get()) is not None:
        function()
        del function  # it may hold whoever waits for more work
