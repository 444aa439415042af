"""Ray, started for one command or joined where it already runs, and its errors in our words."""

import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import AuthenticationError, RayError, RuntimeEnvSetupError

from tools.base import ConfigError, ToolformerError, one_line

SMALLEST_LOCAL_CPUS = 4  # logical: the stages wait most of the time
# For the dashboard Ray keeps what it knows of 100,000 tasks, 3 KB each.
TASK_HISTORY = {"RAY_task_events_max_num_task_in_gcs": "10000"}
# A log that grows, as a Slurm job's does, would make another package of the same code.
NOT_SHIPPED = (".git/", ".venv/", "runs/", "tests/", "*.log", "**/__pycache__/")
_CONNECT_S = 10.0
_STAGES_END_S, _POLL_S = 60.0, 0.1


@contextmanager
def ray_session(address: str | None, *, dashboard: bool, ship: bool = True) -> Iterator[str]:
    """Ray for the duration of a command; yields the address of its dashboard or "".

    With no address the Ray that this process has joined is used, as in a notebook, and left
    running; where it has none, a cluster of this machine alone is started and ended again.
    Otherwise the running cluster is joined, and the code in the current directory is shipped to
    it unless `ship` is false or the job we are part of brought its own.

    Raises:
        ConfigError: there is no cluster at `address`, it does not take the code, or this process
            has joined another.
        ToolformerError: Ray does not start.
    """
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray Data logs every exception it raises; ours to show is one line.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    # As on clusters we start: Ray Data would start an actor for them as well.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's own processes write to its log directory; the terminal is for our progress.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # Where several actors fail, one error is shown; Ray would print those nobody waits for.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if ray.is_initialized():
        with _of_this_process(address):
            yield ""
        return
    with _standard_error_closed():
        context = _start(dashboard) if address is None else _join(address, ship)
    try:
        yield context.dashboard_url or ""
    finally:
        ray.shutdown()


@contextmanager
def _of_this_process(address: str | None) -> Iterator[None]:
    """The Ray that is there; what failed has ended when this ends, as where Ray ends with it."""
    if address is not None:
        raise ConfigError(
            f"--address {address}: this process has a Ray already; leave the address out to use "
            "it, or end it with ray.shutdown()"
        )
    try:
        yield
    except BaseException:
        _end_stages()
        raise


def _end_stages() -> None:
    """End Ray Data's actors, as where Ray ends with a command: no unit is written by half.

    They would live as long as somebody holds the error, whose frames hold them.
    """
    worker: Any = ray._private.worker.global_worker
    deadline = time.monotonic() + _STAGES_END_S
    while (alive := _stages()) and time.monotonic() < deadline:
        for actor_id in alive:
            with suppress(Exception):  # it has ended meanwhile
                worker.core_worker.kill_actor(ray.ActorID.from_hex(actor_id), True)
        time.sleep(_POLL_S)


def stages_alive() -> bool:
    """Whether Ray Data still has an actor in this job: it finishes what it has, and may write."""
    return bool(_stages())


def _stages() -> list[str]:
    job = ray.get_runtime_context().get_job_id()
    alive = ray._private.state.actors(job_id=ray.JobID.from_hex(job), actor_state_name="ALIVE")
    return [
        actor_id
        for actor_id, actor in alive.items()
        if actor["ActorClassName"].startswith("MapWorker")
    ]


def _start(dashboard: bool) -> Any:
    for name, value in TASK_HISTORY.items():
        os.environ.setdefault(name, value)
    try:
        return ray.init(
            address="local",
            num_cpus=max(SMALLEST_LOCAL_CPUS, os.cpu_count() or 1),
            include_dashboard=dashboard,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:  # Ray raises a bare Exception where a node is late, for one
        raise ToolformerError(f"Ray does not start on this machine: {one_line(error)}") from None


def _join(address: str, ship: bool) -> Any:
    host, separator, port = address.rpartition(":")
    code = {"working_dir": str(Path.cwd()), "excludes": list(NOT_SHIPPED)}
    try:
        if separator and port.isdigit():
            # Ray itself waits for minutes where nothing listens.
            socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
        return ray.init(
            address=address,
            runtime_env=code if ship and not _is_job_with_code() else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except RuntimeEnvSetupError as error:
        raise ConfigError(
            f"--address {address}: the code in {Path.cwd()} cannot be shipped: "
            f"{one_line(error.__cause__ or error)}"
        ) from None
    except (OSError, ValueError, AuthenticationError) as error:  # ConnectionError is an OSError
        raise ConfigError(
            f"--address {address}: no Ray cluster to join there: {one_line(error)}; start one with "
            "`ray start --head`, name its token if it has another (RAY_AUTH_TOKEN), or leave "
            "--address out"
        ) from None


def _is_job_with_code() -> bool:
    """Whether a Ray job started us in the directory it shipped: Ray takes no second one."""
    job = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}"))
    return "working_dir" in (job.get("runtime_env") or {})


@contextmanager
def _standard_error_closed() -> Iterator[None]:
    """Ray's C++ part announces on standard error even that it is told to be quiet."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def our_error(error: BaseException) -> ToolformerError | None:
    """The error of this system that made a Ray task, actor or graph fail, if there is one."""
    # Ray's copy of an error is of its class as well, but its text is a whole traceback.
    ours = (
        each
        for each in _and_behind(error)
        if isinstance(each, ToolformerError) and not isinstance(each, RayError)
    )
    return next(ours, None)


def _and_behind(error: BaseException) -> Iterator[BaseException]:
    """An error and those it came from, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += [getattr(current, "cause", None), current.__cause__, current.__context__]
        waiting += [argument for argument in current.args if isinstance(argument, Exception)]


def short_text(error: BaseException) -> str:
    """What went wrong, in one line: the exception of a worker without Ray's traceback around it."""
    carried = getattr(error, "cause", None) or next(iter(error.args), None)
    if isinstance(carried, Exception):
        return short_text(carried)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RayError) and lines:
        return lines[-1]  # of a traceback, the exception itself
    return f"{type(error).__name__}: {' '.join(lines)}"
