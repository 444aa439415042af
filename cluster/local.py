"""`cluster local`: a Ray cluster of this machine for the time of one job."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from cluster.auth import token_for_a_new_cluster
from cluster.demand import check_gpus
from cluster.job import DEFAULT_STEPS, Config, Finetune, Job, Steps, parse_steps
from cluster.nodes import (
    ADDRESS_FILE,
    HEAD_OPTIONS,
    METRICS_FILE,
    NODE_ENVIRONMENT,
    NODE_OPTIONS,
    START_LIMIT_S,
)
from cluster.processes import end, process_family, start
from pipeline.commandline import stderr
from pipeline.ray_session import SMALLEST_LOCAL_CPUS
from tools.base import ConfigError, ToolformerError

Node: TypeAlias = "subprocess.Popen[bytes]"  # of `ray start`

_POLL_S = 0.1


def local_command(
    config: Config,
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes, all on this machine.")] = 1,
    cpus_per_node: Annotated[
        int | None, typer.Option(min=1, help="Instead of this machine's, shared out evenly.")
    ] = None,
    gpus_per_node: Annotated[
        int | None, typer.Option(min=0, help="Needed for several nodes of a machine with GPUs.")
    ] = None,
    steps: Steps = DEFAULT_STEPS,
    finetune: Finetune = None,
) -> None:
    """Run a job on a Ray cluster of this machine, which is gone afterwards."""
    if sys.platform != "linux":
        raise ConfigError("cluster local needs Linux; `python -m pipeline annotate` does not")
    job = Job.of(config, parse_steps(steps), finetune)
    if gpus_per_node is not None:
        check_gpus(job, nodes=nodes, gpus_per_node=gpus_per_node)
    # The paths of Ray's sockets are limited: not TMPDIR, which may be long.
    place = os.environ.get("RAY_TMPDIR", "/tmp")
    with (
        tempfile.TemporaryDirectory(prefix="tf-", dir=place) as own,
        _seen_by_prometheus(Path(own)),
        process_family(),
    ):
        cluster = LocalCluster(Path(own), nodes, cpus_per_node, gpus_per_node)
        code = cluster.run(job)
    if code:
        raise typer.Exit(code)


@contextmanager
def _seen_by_prometheus(directory: Path) -> Iterator[None]:
    """A link by which what `cluster metrics` configures finds the nodes."""
    link = directory.with_suffix(".json")
    link.symlink_to(directory / "0" / METRICS_FILE)
    try:
        yield
    finally:
        link.unlink(missing_ok=True)


class LocalCluster:
    """`ray start` processes, with whatever they write below one directory of a short name."""

    def __init__(self, directory: Path, nodes: int, cpus: int | None, gpus: int | None) -> None:
        self._directory, self._num_nodes, self._gpus = directory, nodes, gpus
        self._cpus = cpus or max(SMALLEST_LOCAL_CPUS, (os.cpu_count() or 1) // nodes)
        ours = os.environ | NODE_ENVIRONMENT | token_for_a_new_cluster(os.environ)
        self._environment = {name: ours[name] for name in ours if name != "RAY_ADDRESS"}
        self._nodes: list[Node] = []

    def run(self, job: Job) -> int:
        """Start all nodes and run the steps; the exit code of the first step that fails, else 0.

        Raises:
            ToolformerError: a node does not start, or the head ends before the steps do.
        """
        address = self._start_nodes()
        wait = [sys.executable, "-m", "cluster", "wait", address, "--nodes", str(self._num_nodes)]
        code = self._finish(wait, needed=self._nodes)
        if code:
            return code
        commands = job.commands(python=sys.executable, address=address, fixed=True)
        for step, command in zip(job.steps, commands, strict=True):
            code = self._finish(command, needed=self._nodes[:1])  # Ray bears the loss of others
            if code:
                stderr.print(f"[bold red]error:[/] step {step} ended with exit code {code}")
                return code
        return 0

    def _start_nodes(self) -> str:
        """The address of the cluster, whose head is there and whose other nodes are starting."""
        self._start_node(HEAD_OPTIONS)
        file = self._directory / "0" / ADDRESS_FILE
        deadline = time.monotonic() + START_LIMIT_S
        while not (file.exists() and (address := file.read_text().strip())):
            self._check(self._nodes)
            if time.monotonic() > deadline:
                raise ToolformerError(f"the head was not there after {START_LIMIT_S:g} s")
            time.sleep(_POLL_S)
        for _ in range(1, self._num_nodes):
            self._start_node([f"--address={address}"])
        return address

    def _start_node(self, role: Sequence[str]) -> None:
        number = len(self._nodes)
        options = [
            *role, *NODE_OPTIONS, "--node-ip-address=127.0.0.1", f"--num-cpus={self._cpus}",
            f"--temp-dir={self._directory / str(number)}",
        ]  # fmt: skip
        if self._gpus is not None:
            options.append(f"--num-gpus={self._gpus}")
        with self._log(number).open("wb") as log:
            self._nodes.append(
                start(
                    [sys.executable, "-m", "ray.scripts.scripts", "start", *options],
                    environment=self._environment | self._share_of_gpus(number),
                    directory=self._directory,
                    output=log,
                )
            )

    def _share_of_gpus(self, number: int) -> dict[str, str]:
        """Each node would take the first GPUs, as if it were alone."""
        if not self._gpus or self._num_nodes == 1:
            return {}
        there = os.environ.get("CUDA_VISIBLE_DEVICES")
        ids = there.split(",") if there else [str(i) for i in range(self._gpus * self._num_nodes)]
        return {
            "CUDA_VISIBLE_DEVICES": ",".join(ids[number * self._gpus : (number + 1) * self._gpus])
        }

    def _finish(self, command: Sequence[str], *, needed: Sequence[Node]) -> int:
        """The exit code of a command that is run to its end, as a shell would say it."""
        process = start(command, environment=self._environment)
        try:
            while process.poll() is None:
                self._check(needed)
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                end(process)
        return process.returncode if process.returncode >= 0 else 128 - process.returncode

    def _check(self, needed: Sequence[Node]) -> None:
        for number, node in enumerate(needed):
            if node.poll() is not None:
                lines = self._log(number).read_text(errors="replace").split("\n")
                said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
                raise ToolformerError(
                    f"Ray's node {number} ended with exit code {node.returncode}; it said: {said}"
                )

    def _log(self, number: int) -> Path:
        return self._directory / f"{number}.log"
