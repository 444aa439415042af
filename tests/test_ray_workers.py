"""The workers of a Ray of the tests: forked, and else what Ray starts by itself."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.exceptions import RayActorError

from tests.ray_workers import forked_worker, server

pytestmark = pytest.mark.ray


class _Witness:
    """Tells which process it is."""

    def process(self) -> tuple[int, str]:
        return os.getpid(), ray.get_runtime_context().get_worker_id()


def test_a_worker_is_forked_and_ends_with_what_ray_started_and_the_reverse(local_ray: None) -> None:
    actor: Any = ray.remote(num_cpus=0)(_Witness)
    witnesses = [actor.remote() for _ in range(2)]
    found = ray.get([witness.process.remote() for witness in witnesses])
    forks = [psutil.Process(pid) for pid, _ in found]
    starters = [
        next(p for p in psutil.process_iter(["cmdline"]) if f"--worker-id={worker}" in cmdline(p))
        for _, worker in found
    ]
    assert all(server.__file__ in cmdline(fork.parent()) for fork in forks)
    starters[0].kill()
    forks[1].kill()
    for ends, witness in zip((forks[0], starters[1]), witnesses, strict=True):
        ends.wait(timeout=60)
        with pytest.raises(RayActorError):
            ray.get(witness.process.remote())


def cmdline(process: psutil.Process | None) -> list[str]:
    try:
        return [] if process is None else process.cmdline()
    except psutil.Error:
        return []


def test_without_a_server_it_is_the_worker_of_ray(worker_server: Path, tmp_path: Path) -> None:
    forked, own = (
        subprocess.run(
            [sys.executable, forked_worker.__file__, "--help"],
            env=os.environ | {forked_worker.SERVER: str(path)}, capture_output=True, text=True,
        )
        for path in (worker_server, tmp_path / "none")
    )  # fmt: skip
    assert "--worker-launch-time-ms" in forked.stdout
    assert forked.stdout == own.stdout
    assert (forked.returncode, forked.stderr) == (0, "")
    assert (own.returncode, own.stderr) == (0, "not forked: [Errno 2] No such file or directory\n")
