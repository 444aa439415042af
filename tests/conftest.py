import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from upath import UPath

from tests.object_store import Server


@pytest.fixture(scope="session")
def ray_directory() -> Iterator[Path]:
    """A place for Ray's files with a short name: the paths of its sockets are limited."""
    directory = Path(tempfile.mkdtemp(prefix="tf-ray-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def local_ray(ray_directory: Path) -> Iterator[None]:
    """A Ray of two CPUs in this process."""
    import ray  # only where a test asks for it

    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        _temp_dir=str(ray_directory),
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, mounted for one test."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system does not let root mount a tmpfs")
    yield place
    subprocess.run(["umount", str(place)], check=True)


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
