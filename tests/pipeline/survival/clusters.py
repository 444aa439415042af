"""A Ray cluster of several nodes in this process, and the processes at work on its nodes."""

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.pipeline.demo_runs import ROOT
from tests.ray_workers import forked_worker

# A node is dead after four answers that did not come: much sooner than by default, but not so
# soon that a busy machine loses one.
QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}
# Nobody reads logs on a terminal, and nothing grows: each would be a Python process more.
WITHOUT = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
_POLL_S = 0.02
_PATIENCE_S = 60.0


class RayCluster:
    """A head without GPUs, which drivers join, and nodes that come and go."""

    def __init__(self, cluster: Any, directory: Path, worker: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._num_added = 0
        self._worker = worker  # what its nodes start as one, where it is not Ray's own
        self.directory = directory  # for drivers to name as Ray's
        self.address: str = cluster.address

    @property
    def joined(self) -> tuple[str, str]:
        """What `annotate` is told to run here."""
        return "--address", self.address

    @contextmanager
    def joined_here(self) -> Iterator[None]:
        """This process has joined it."""
        import ray

        ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()

    @property
    def head(self) -> Any:
        return self._cluster.head_node

    @property
    def others(self) -> list[Any]:
        return list(self._cluster.worker_nodes)

    def add(self, **resources: Any) -> Any:
        """A further node, once it is part of the cluster.

        It has a directory of its own: Ray unpacks the code it ships below, and throws away what is
        there, even what workers of another node import just now.
        """
        self._num_added += 1
        return self._cluster.add_node(
            temp_dir=str(self.directory / f"node{self._num_added}"),
            include_log_monitor=False,
            **self._worker,
            **resources,
        )

    def remove(self, node: Any) -> None:
        """Kill all processes of a node, its workers with them."""
        self._cluster.remove_node(node, allow_graceful=False)

    def node_of(self, pid: int) -> Any:
        """The node a worker runs on."""
        for node in [self.head, *self.others]:
            if pid in [worker.pid for worker in workers_of(node)]:
                return node
        raise AssertionError(f"process {pid} is on no node")

    def find(self, title: str) -> list[int]:
        """The workers on all nodes whose titles hold `title`, the oldest first."""
        found = [
            worker
            for node in [self.head, *self.others]
            for worker in workers_of(node)
            if title in _title(worker)
        ]
        return [worker.pid for worker in sorted(found, key=lambda worker: worker.create_time())]

    def wait_until_dead(self, node_id: str) -> None:
        """Wait until the cluster knows that a node is no more."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            nodes = self._cluster.global_state.node_table()
            if any(node["NodeID"] == node_id and not node["Alive"] for node in nodes):
                return
            time.sleep(_POLL_S)
        raise AssertionError(f"node {node_id} is still thought alive")


@contextmanager
def ray_cluster(
    *nodes: Mapping[str, Any], head: Mapping[str, Any], worker_server: Path | None = None
) -> Iterator[RayCluster]:
    """A head and `nodes`, each of the resources it says; all of it is gone afterwards.

    `worker_server` forks the workers, see tests/ray_workers.
    """
    from ray.cluster_utils import Cluster

    directory = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))  # sockets: a short name
    temporary = directory / "ray"  # where a Ray of that RAY_TMPDIR looks
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_HEALTH_CHECKS.items():
            patch.setenv(name, value)
        patch.setenv("RAY_TMPDIR", str(directory))
        patch.setenv("RAY_BACKEND_LOG_LEVEL", "fatal")
        # `annotate --address` ships no tests; our engine and tool are among them.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        worker = {}
        if worker_server is not None:
            patch.setenv(forked_worker.SERVER, str(worker_server))
            worker = {"worker_path": forked_worker.__file__}
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"temp_dir": str(temporary), **WITHOUT, **worker} | dict(head),
        )
        try:
            started = RayCluster(cluster, directory, worker)
            for resources in nodes:
                started.add(**resources)
            yield started
        finally:
            cluster.shutdown()  # type: ignore[no-untyped-call]
            shutil.rmtree(directory, ignore_errors=True)


def workers_of(node: Any) -> Sequence[psutil.Process]:
    """The processes that a node's raylet started, or had forked."""
    [raylet] = node.all_processes["raylet"]
    try:
        children = psutil.Process(raylet.process.pid).children()
    except psutil.NoSuchProcess:
        return []
    return [worker for child in children if (worker := _worker(child)) is not None]


def _worker(child: psutil.Process) -> psutil.Process | None:
    """The worker that is or stands behind a process; None where there is none, or none yet."""
    try:
        if forked_worker.__file__ not in child.cmdline():
            return child
        return psutil.Process(int(child.name()))
    except (psutil.Error, ValueError):
        return None


def _title(worker: psutil.Process) -> str:
    try:
        return " ".join(worker.cmdline())
    except psutil.Error:
        return ""
