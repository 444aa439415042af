"""The server that forks workers, while somebody needs it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ray_workers import server


@contextmanager
def forking_server() -> Iterator[Path]:
    """The socket of a server in this environment."""
    directory = Path(tempfile.mkdtemp(prefix="tf-fork-", dir="/tmp"))
    path = directory / "socket"
    process = subprocess.Popen(
        [sys.executable, server.__file__, path], env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    try:
        yield path
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory)
