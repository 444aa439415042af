"""The server that forks workers, while somebody needs it."""

import os
import shutil
import socket
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
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(64)  # who asks before all is imported waits
        file = listening.fileno()
        process = subprocess.Popen(
            [sys.executable, server.__file__, str(file)],
            env=os.environ | {"OMP_NUM_THREADS": "1"}, pass_fds=[file],
        )  # fmt: skip
    try:
        yield path
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory)
