"""Ray, started for one command or joined where it already runs, and its errors in our words."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from tools.base import ToolformerError

_SMALLEST_LOCAL_CPUS = 4  # logical: the stages wait most of the time
_NOT_SHIPPED = [".git/", ".venv/", "runs/", "tests/", "**/__pycache__/"]


@contextmanager
def ray_session(address: str | None, *, dashboard: bool) -> Iterator[str]:
    """Ray for the duration of a command; yields the address of its dashboard or "".

    With no address a cluster of this machine alone is started and ended again. Otherwise the
    running cluster is joined, and the code in the current directory is shipped to it.
    """
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if address is None:
        # Ray's own processes write to its log directory; the terminal is for our progress.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        context = ray.init(
            address="local",
            num_cpus=max(_SMALLEST_LOCAL_CPUS, os.cpu_count() or 1),
            include_dashboard=dashboard,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    else:
        context = ray.init(
            address=address,
            runtime_env={"working_dir": str(Path.cwd()), "excludes": _NOT_SHIPPED},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield context.dashboard_url or ""
    finally:
        ray.shutdown()


def our_error(error: BaseException) -> ToolformerError | None:
    """The error of this system that made a Ray task, actor or graph fail, if there is one."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, ToolformerError):
            return current
        waiting += [getattr(current, "cause", None), current.__cause__, current.__context__]
    return None
