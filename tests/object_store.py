"""A server that speaks S3, and a way to it that breaks."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Server:
    """moto's server on a port of its own, with a log of what it was asked."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "requests"
        # Another process may take a free port before the server does.
        if not (self._starts() or self._starts()):
            raise AssertionError(self._log.read_text())

    def _starts(self) -> bool:
        """Whether the server is there, and not another one at the port that was free."""
        self.port = free_port()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        while self._process.poll() is None:
            if listens(self.port) and b"Running on" in self._log.read_bytes():
                return True
            time.sleep(0.05)
        return False

    def environment(self, port: int | None = None) -> dict[str, str]:
        """What lets a process find this server, by another port where that leads to it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    @contextmanager
    def asked(self) -> Iterator[list[str]]:
        """Requests during the body, as "GET /bucket/name"; filled in at its end."""
        requests: list[str] = []
        before = len(self._lines())
        yield requests
        requests.extend(self._lines()[before:])

    def _lines(self) -> list[str]:
        lines = re.sub(r"\x1b\[[0-9;]*m", "", self._log.read_text()).splitlines()
        return [line.split('"')[1].rpartition(" ")[0] for line in lines if " HTTP/1.1" in line]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


class Breaking:
    """A way to a server on which a connection stands still once `after` bytes went there."""

    def __init__(self, port: int, *, after: int) -> None:
        self._server, self._after = port, after
        self.reached = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            server = socket.create_connection(("127.0.0.1", self._server))
            self._open += [client, server]
            threading.Thread(target=self._forth, args=(client, server), daemon=True).start()
            threading.Thread(target=self._back, args=(client, server), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        passed = 0
        with suppress(OSError):  # one side is gone
            while passed < self._after and (data := client.recv(4096)):
                server.sendall(data)
                passed += len(data)
        if passed >= self._after:
            self.reached.set()
        else:
            server.close()

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):  # one side is gone
            while data := server.recv(4096):
                client.sendall(data)

    def close(self) -> None:
        for each in self._open:
            each.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def without_credentials(home: Path) -> dict[str, str]:
    """Our environment in which nothing tells who asks a store."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    return ours | {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}
