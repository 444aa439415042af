"""A line for the user whenever replicas of M go missing or come back, while a run goes on."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

_LOOK_EVERY_S = 10.0


@contextmanager
def tell_of_missing(dispatcher: Any, tell: Callable[[str], None]) -> Iterator[None]:
    """While the body runs, ask the dispatcher who answers, and tell what has changed."""
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(dispatcher, tell, stop), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(dispatcher: Any, tell: Callable[[str], None], stop: threading.Event) -> None:
    missing: dict[str, int] = {}
    while not stop.wait(_LOOK_EVERY_S):
        try:
            up_of = ray.get(dispatcher.replicas_up.remote(), timeout=_LOOK_EVERY_S)
        except (GetTimeoutError, RayError):
            continue  # it is being started again
        for line in lines(missing, up_of):
            tell(line)


def lines(missing: dict[str, int], up_of: dict[str, tuple[int, int]]) -> Iterator[str]:
    """What changed since the last look, a line for each pool; `missing` is brought up to date.

    `up_of` has for each pool how many replicas answer, and how many there are.
    """
    for pool, (up, replicas) in up_of.items():
        if replicas - up == missing.get(pool, 0):
            continue
        missing[pool] = replicas - up
        yield (
            f"pool {pool}: all {replicas} replicas answer again"
            if up == replicas
            else f"pool {pool}: {up} of {replicas} replicas answer; Ray starts the others again, "
            "but for any whose process cannot even begin"
        )
