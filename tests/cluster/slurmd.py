"""A Slurm cluster of this machine: a controller and nodes, with a configuration of its own."""

import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from tests.cluster.commands import processes_with
from tests.object_store import free_port

T = TypeVar("T")

_NEEDED = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol", "scancel", "unshare")
_PATIENCE_S = 500.0  # a busy machine starts Ray in minutes
_UNDER_WAY = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING")
# Nodes are of the size they are said to be, whatever this machine has.
_CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthInfo=socket={directory}/munge/socket
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1
MinJobAge=86400
ReturnToService=2
GresTypes=gpu
FirstJobId={first_job}
PartitionName=main Nodes=ALL Default=YES
"""
_NODE = "NodeName={name} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=8192 Gres=gpu:1\n"


def missing() -> str | None:
    """Why there can be no Slurm cluster here; None if there can."""
    if os.geteuid() != 0:
        return "a Slurm cluster of our own needs root"
    for command in _NEEDED:
        if shutil.which(command) is None:
            return f"there is no {command}; on Debian: apt-get install munge slurmctld slurmd"
    return None


class SlurmCluster:
    """Daemons in the foreground, ended by their process ids."""

    def __init__(self, *names: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tf-slurm-", dir="/tmp"))
        self._daemons: list[subprocess.Popen[bytes]] = []
        try:
            self._configure(names)
            munge = self.directory / "munge"
            self._start(
                "munged", "--foreground", "--force", f"--socket={munge / 'socket'}",
                f"--key-file={munge / 'key'}", f"--pid-file={munge / 'pid'}",
                f"--log-file={munge / 'log'}", f"--seed-file={munge / 'seed'}",
            )  # fmt: skip
            self.wait_for((munge / "socket").exists)
            self._start("slurmctld", "-D")
            for name in names:
                # A node has the name of its host, so each is given a host's name of its own.
                self._start("unshare", "--uts", "sh", "-c", f"hostname {name} && exec slurmd -D")
            self.wait_for(lambda: self.ask("sinfo", "-h", "-o", "%T") == "idle")
        except BaseException:
            self.stop()
            raise

    @property
    def environment(self) -> dict[str, str]:
        """By which the commands of Slurm find this cluster."""
        return {"SLURM_CONF": str(self.directory / "slurm.conf")}

    def ask(self, *command: str) -> str:
        """What a command of Slurm prints; "" where it fails."""
        return subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True
        ).stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """What the controller knows of a job: JobState, ExitCode, BatchHost and others."""
        # A controller that is busy does not answer: that is no answer yet.
        line = self.wait_for(lambda: self.ask("scontrol", "--oneliner", "show", "job", job_id))
        return dict(field.split("=", 1) for field in line.split() if "=" in field)

    def wait_for_end(self, job_id: str) -> dict[str, str]:
        """A job that has ended, with whatever ran for it."""
        self.wait_for(lambda: self.job(job_id)["JobState"] not in _UNDER_WAY)
        return self.job(job_id)

    def wait_while_it_runs(self, job_id: str, fact: Callable[[], bool]) -> None:
        """Wait for a fact that a job brings about before it ends."""
        self.wait_for(lambda: fact() or self.job(job_id)["JobState"] not in _UNDER_WAY)
        assert fact(), Path(self.job(job_id)["StdOut"]).read_text()

    def wait_for(self, fact: Callable[[], T]) -> T:
        """Wait while all daemons live until something is true; what it is then."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := fact()):
            if time.monotonic() > deadline or any(d.poll() is not None for d in self._daemons):
                logs = sorted(self.directory.glob("*.log"))
                raise AssertionError("\n".join(f"{log}\n{log.read_text()}" for log in logs))
            time.sleep(0.2)
        return found

    def stop(self) -> None:
        """End all jobs, then all daemons, then whatever they left."""
        if len(self._daemons) > 1:
            self.ask("scancel", "--me")
            with suppress(AssertionError):
                self.wait_for(lambda: self.ask("squeue", "-h") == "")
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(timeout=_PATIENCE_S)
        for process in processes_with("SLURM_CONF", self.environment["SLURM_CONF"]):
            process.kill()
        shutil.rmtree(self.directory)

    def _configure(self, names: tuple[str, ...]) -> None:
        for name in ("munge", "state"):
            (self.directory / name).mkdir(mode=0o700)
        key = self.directory / "munge" / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        text = _CONFIGURATION.format(
            host=socket.gethostname(),
            port=free_port(),
            directory=self.directory,
            first_job=random.randrange(1000, 1_000_000),  # directories have the names of jobs
        )
        text += "".join(_NODE.format(name=name, port=free_port()) for name in names)
        (self.directory / "slurm.conf").write_text(text)
        (self.directory / "gres.conf").write_text("Name=gpu File=/dev/null\n")

    def _start(self, *command: str) -> None:
        log = self.directory / f"{len(self._daemons)}-{command[0]}.log"
        with log.open("wb") as output:
            self._daemons.append(
                subprocess.Popen(
                    command,
                    env=os.environ | self.environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
