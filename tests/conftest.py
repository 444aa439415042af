import logging
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from upath import UPath

from tests.object_store import Server
from tests.ray_workers import forked_worker
from tests.ray_workers.starting import forking_server
from tests.small_disk import mounted

# Whoever starts the tests in the background of a shell has them, and all they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of interpreters: where no bytecode is kept, each compiles what it imports,
# with torch and transformers three times the work of a whole run of the demo.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray Data's take a process of their own

# Quiet, and quicker in what a test would wait for.
OF_RAY = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # nothing runs at its end
    "RAY_metrics_report_interval_ms": "1000",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Ray first: they take longest, and processes of tests shall end together."""
    with_ray = {item.path for item in items if item.get_closest_marker("ray")}
    items.sort(key=lambda item: item.path not in with_ray)


@pytest.fixture(scope="session")
def ray_directory() -> Iterator[Path]:
    """A place for Ray's files with a short name: the paths of its sockets are limited."""
    directory = Path(tempfile.mkdtemp(prefix="tf-ray-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def worker_server() -> Iterator[Path]:
    """The socket of a process that forks Ray's workers, see ray_workers/."""
    with forking_server() as path:
        yield path


@pytest.fixture(scope="module")
def ray_node(worker_server: Path) -> Iterator[str]:
    """The address of a Ray of four CPUs, one for the tests of a module that ask for it.

    Not one for all modules: after the kills of some, it would start no actor for the next.
    """
    from ray._common.utils import get_default_ray_temp_dir  # only where a test asks for it
    from ray.cluster_utils import Cluster

    # Not in `ray_directory`: its last session would be taken for that of the commands there.
    directory = Path(tempfile.mkdtemp(prefix="tf-node-", dir="/tmp"))
    # Where no Ray has ever run, Cluster has no place to note its address in.
    Path(get_default_ray_temp_dir()).mkdir(exist_ok=True)  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in OF_RAY.items():
            patch.setenv(name, value)
        patch.setenv(forked_worker.SERVER, str(worker_server))
        # Nobody reads logs on a terminal, and nothing grows: each would be a Python process more.
        without = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        node = {"num_cpus": 4, "temp_dir": str(directory), "worker_path": forked_worker.__file__}
        cluster = Cluster(initialize_head=True, head_node_args=node | without)
    yield cluster.address
    cluster.shutdown()  # type: ignore[no-untyped-call]
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def local_ray(ray_node: str) -> Iterator[None]:
    """A Ray that this process has joined; what a module leaves in it ends with the module."""
    import ray

    ray.init(address=ray_node, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, mounted for one test."""
    with mounted(tmp_path / "disk", "128k") as place:
        yield place


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks S3."""
    server = Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def bucket(s3_server: Server) -> Iterator[UPath]:
    """An empty bucket, which this process and its children can reach."""
    name = f"s3://bucket-{uuid.uuid4().hex[:8]}"
    with pytest.MonkeyPatch.context() as patch:
        for key, value in s3_server.environment().items():
            patch.setenv(key, value)
        bucket = UPath(name)
        bucket.fs.mkdir(bucket.path)
        yield bucket
