"""Ray nodes with addresses of their own: network namespaces on a bridge, with cables to cut."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.pipeline.demo_runs import ROOT
from tests.pipeline.survival.clusters import QUICK_HEALTH_CHECKS

_RAY = str(Path(sys.executable).parent / "ray")
_PORT = 6379
_PATIENCE_S = 90.0


class Namespaces:
    """A bridge with one namespace for each node; the first is the head's."""

    def __init__(self, names: Sequence[str]) -> None:
        self._id = os.getpid() % 100_000  # names of interfaces have 15 characters
        self._net = f"10.{64 + self._id % 64}.{self._id // 64 % 256}"
        self._names = list(names)
        self._bridge = f"tfb{self._id}"

    def make(self) -> None:
        """Raises CalledProcessError where this system does not let us."""
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._net}.254/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number, name in enumerate(self._names):
            inside, cable = self._inside(name), self._cable(name)
            _ip("netns", "add", inside)
            _ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", inside)
            _ip("link", "set", cable, "master", self._bridge, "up")
            _ip("-n", inside, "addr", "add", f"{self._net}.{number + 1}/24", "dev", "eth0")
            _ip("-n", inside, "link", "set", "lo", "up")
            _ip("-n", inside, "link", "set", "eth0", "up")
            # Ray finds out its own address by the way that leads out.
            _ip("-n", inside, "route", "add", "default", "via", f"{self._net}.254")

    def remove(self) -> None:
        for name in self._names:
            for what in (("link", "del", self._cable(name)), ("netns", "del", self._inside(name))):
                with suppress(subprocess.CalledProcessError):
                    _ip(*what)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)

    def cut(self, name: str) -> None:
        """No packet reaches the node any more, or comes from it."""
        _ip("link", "set", self._cable(name), "down")

    def mend(self, name: str) -> None:
        _ip("link", "set", self._cable(name), "up")

    def address(self, name: str) -> str:
        return f"{self._net}.{self._names.index(name) + 1}"

    def entering(self, name: str) -> list[str]:
        """What a command begins with that is to run in a namespace."""
        return ["ip", "netns", "exec", self._inside(name)]

    def _inside(self, name: str) -> str:
        return f"tf{self._id}{name}"

    def _cable(self, name: str) -> str:
        return f"tfv{self._id}{name[0]}"


class RealNodes:
    """`ray start` in every namespace, in process groups of their own."""

    def __init__(self, namespaces: Namespaces, directory: Path) -> None:
        self.namespaces, self.directory = namespaces, directory
        self._groups: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def joined(self) -> tuple[str, str]:
        """What `annotate` is told to run here."""
        return "--address", f"{self.namespaces.address('head')}:{_PORT}"

    def start(self, name: str, *resources: str) -> None:
        """A node; the head first. Returns once it is part of the cluster."""
        # A directory for each, as on machines of their own: see RayCluster.add.
        where = [f"--address={self.joined[1]}", f"--temp-dir={self.directory / name}"]
        if name == "head":
            where = ["--head", f"--port={_PORT}", f"--temp-dir={self.directory / 'ray'}"]
            where.append("--include-dashboard=false")
        printed = self.directory / f"{name}.printed"
        with printed.open("wb") as output:
            self._groups[name] = subprocess.Popen(
                [
                    *self.namespaces.entering(name), _RAY, "start", "--block", *where, *resources,
                    f"--node-ip-address={self.namespaces.address(name)}",
                    "--object-store-memory=150000000",
                ],
                cwd=self.directory, start_new_session=True, stdout=output, stderr=output,
            )  # fmt: skip
        deadline = time.monotonic() + _PATIENCE_S
        while "Ray runtime started" not in printed.read_text():
            assert self._groups[name].poll() is None, f"node {name} ended: {printed.read_text()}"
            assert time.monotonic() < deadline, f"node {name} is late: {printed.read_text()}"
            time.sleep(0.1)

    def workers(self, name: str, title: str) -> list[int]:
        """The processes on a node whose titles hold `title`."""
        family = psutil.Process(self._groups[name].pid).children(recursive=True)
        return [process.pid for process in family if title in _title(process)]

    def stop(self) -> None:
        for group in self._groups.values():
            family = _family(group.pid)
            with suppress(ProcessLookupError):
                os.killpg(group.pid, signal.SIGKILL)
            for process in family:  # workers have groups of their own
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            group.wait()


@contextmanager
def real_nodes(*names: str) -> Iterator[RealNodes]:
    """Namespaces "head" and `names`, ready for nodes; nothing of them is left afterwards."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    namespaces = Namespaces(["head", *names])
    directory = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))  # sockets: a short name
    nodes = RealNodes(namespaces, directory)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _environment(directory).items():
            patch.setenv(name, value)
        try:
            try:
                namespaces.make()
            except subprocess.CalledProcessError as error:
                pytest.skip(f"this system does not let root make namespaces: {error.stderr}")
            yield nodes
        finally:
            nodes.stop()
            namespaces.remove()
            shutil.rmtree(directory, ignore_errors=True)


def _environment(directory: Path) -> dict[str, str]:
    return QUICK_HEALTH_CHECKS | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_TMPDIR": str(directory),
        "RAY_BACKEND_LOG_LEVEL": "fatal",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }


def _family(pid: int) -> list[psutil.Process]:
    try:
        children: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return children


def _title(process: Any) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
