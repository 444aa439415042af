"""Server processes of tests that listen on a port of 127.0.0.1."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def listening(
    command: Callable[[int], Sequence[str]], port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of `command(port)`, from when it listens until the end of the context."""
    process = subprocess.Popen(command(port), stderr=subprocess.DEVNULL)
    try:
        for _ in range(2400):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"the server ended ({process.returncode})"
                time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()
