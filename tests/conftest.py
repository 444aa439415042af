import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def ray_directory() -> Iterator[Path]:
    """A place for Ray's files with a short name: the paths of its sockets are limited."""
    directory = Path(tempfile.mkdtemp(prefix="tf-ray-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
