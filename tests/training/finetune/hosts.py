"""Two hosts for the deepspeed launcher: two names of this machine, and its own SSH server."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What the launcher is told, and its environment."""

    options: list[str]
    environment: dict[str, str]


def free_port() -> int:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextmanager
def two_hosts(directory: Path) -> Iterator[Hosts]:
    """An SSH server that lets us in by a key of its own; one rank on each host."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if sshd is None or shutil.which("pdsh") is None:
        pytest.skip("needs Debian's openssh-server and pdsh")
    port, key, log = free_port(), directory / "key", directory / "sshd.log"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    settings = directory / "sshd_config"
    settings.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {key}\nPidFile none\n"
        f"AuthorizedKeysFile {key}.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which its service would make
    server = subprocess.Popen([sshd, "-D", "-E", str(log), "-f", str(settings)])
    try:
        _wait(port, server, log)
        hostfile = directory / "hostfile"
        hostfile.write_text("127.0.0.1 slots=1\nlocalhost slots=1\n")
        exported = directory / "exported"  # what is said to the hosts, beside PYTHON...
        exported.write_text("OMP_NUM_THREADS=1\nOMP_WAIT_POLICY=PASSIVE\nDS_ACCELERATOR=cpu\n")
        yield Hosts(
            # What checks the way to a host does not know the key.
            options=[
                "--hostfile", str(hostfile), "--ssh_port", str(port), "--no_ssh_check",
                "--master_addr", "127.0.0.1", "--master_port", str(free_port()),
            ],
            environment={
                "DS_ENV_FILE": str(exported),
                "PDSH_SSH_ARGS_APPEND": f"-i {key} -o IdentitiesOnly=yes -o LogLevel=ERROR "
                "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            },
        )  # fmt: skip
    finally:
        server.terminate()
        server.wait()


def _wait(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = monotonic() + _LIMIT_S
    while server.poll() is None and monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return
        sleep(0.1)
    raise AssertionError(f"sshd does not answer: {log.read_text() if log.exists() else ''}")
