"""`cluster local`: real nodes on this machine, and nothing of them afterwards."""

import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cluster.nodes import METRICS_LINKS
from tests.cluster.commands import (
    QUICK,
    cluster,
    command_lines,
    environment,
    files_with,
    processes_with,
    start_cluster_command,
    variable_of,
)  # fmt: skip
from tests.cluster.readme import arguments_of
from tests.pipeline.demo_runs import demo_config

pytestmark = pytest.mark.ray

_PATIENCE_S = 500.0


class Mine:
    """An environment whose processes and files can be found."""

    def __init__(self, directory: Path) -> None:
        self.id = secrets.token_hex(8)
        self.directory = directory  # of Ray's files
        self.environment = environment() | {"RAY_TMPDIR": str(directory), "TEST_ID": self.id}

    def processes(self) -> list[psutil.Process]:
        return processes_with("TEST_ID", self.id)

    def is_clean(self) -> bool:
        """Whether no process and no file is left."""
        return not self.processes() and not list(self.directory.iterdir())


@pytest.fixture
def mine() -> Iterator[Mine]:
    with tempfile.TemporaryDirectory(prefix="tf-", dir="/tmp") as directory:  # sockets: short
        mine = Mine(Path(directory))
        yield mine
        for process in mine.processes():
            process.kill()


def wait_until(fact: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for a fact while a command goes on."""
    deadline = time.monotonic() + _PATIENCE_S
    while not fact():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def num_targets(directory: Path) -> int:
    """What Prometheus finds to scrape where `cluster metrics` lets it look."""
    return sum(
        len(group["targets"])
        for path in directory.glob(METRICS_LINKS)
        if path.exists()
        for group in json.loads(path.read_text())
    )


def test_two_nodes_annotate_and_their_token_is_nowhere(tmp_path: Path, mine: Mine) -> None:
    run = tmp_path / "run"
    config = demo_config(tmp_path, 4, run=str(run), **QUICK)
    told = arguments_of("On this machine", config)
    assert told[-2:] == ["--nodes", "2"]
    command = start_cluster_command(
        *told, "--cpus-per-node", 2, "--gpus-per-node", 2, environment=mine.environment
    )
    wait_until((run / "run.json").exists, command)  # all nodes are there
    tokens = {variable_of(process, "RAY_AUTH_TOKEN") for process in mine.processes()} - {None}
    [token] = tokens
    assert token is not None and len(token) == 64
    assert token not in command_lines()
    nodes = [p for p in mine.processes() if "ray.scripts.scripts" in " ".join(p.cmdline())]
    assert sorted(variable_of(node, "CUDA_VISIBLE_DEVICES") or "" for node in nodes) == [
        "0,1", "2,3",
    ]  # fmt: skip
    # Of both nodes, the dashboard and the autoscaler.
    wait_until(lambda: num_targets(mine.directory) == 4, command)
    assert files_with(token, mine.directory) == []  # with nodes at work
    out, err = command.communicate(timeout=_PATIENCE_S)
    assert command.returncode == 0, (out, err)
    assert "Ray nodes: 2; dashboard: http://127.0.0.1:" in out
    assert json.loads((run / "report" / "stats.json").read_text())["documents"] == 4
    assert token not in out + err
    assert files_with(token, tmp_path) == []
    assert mine.is_clean()


def test_a_run_that_the_nodes_have_no_gpus_for_is_not_begun(tmp_path: Path, mine: Mine) -> None:
    config = demo_config(tmp_path, 1, engine={"replicas": 5, "num_gpus": 1})
    done = cluster(
        "local", config, "--nodes", 2, "--gpus-per-node", 2, environment=mine.environment
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "5 GPUs are asked for and 4 are there (nodes: 2, gpus_per_node: 2)" in done.stderr
    assert mine.is_clean()


def test_a_step_that_fails_gives_its_exit_code_and_its_name(tmp_path: Path, mine: Mine) -> None:
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"))
    done = cluster(
        "local", config, "--cpus-per-node", 1, "--steps", "build,report",
        environment=mine.environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.endswith("error: step build ended with exit code 1\n")
    assert done.stderr.count("\n") == 2 and "Traceback" not in done.stderr
    assert mine.is_clean()


@pytest.mark.parametrize(
    "number, moment, code",
    [
        (signal.SIGTERM, "run/run.json", 143),  # annotate is at work
        (signal.SIGINT, "ray/tf-*/0/session_*/logs/gcs_server.out", 130),  # Ray starts
        (signal.SIGKILL, "ray/tf-*/0/ray_current_cluster", -9),  # nodes are awaited
    ],
)
def test_a_signal_leaves_no_process(
    tmp_path: Path, mine: Mine, number: int, moment: str, code: int
) -> None:
    (tmp_path / "ray").symlink_to(mine.directory)
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"), **QUICK)
    command = start_cluster_command(
        "local", config, "--cpus-per-node", 2, environment=mine.environment
    )
    wait_until(lambda: bool(list(tmp_path.glob(moment))), command)
    os.kill(command.pid, number)
    out, err = command.communicate(timeout=_PATIENCE_S)
    assert command.returncode == code, (out, err)
    assert "Traceback" not in err
    if number == signal.SIGKILL:  # nobody is left to wait for them
        psutil.wait_procs(mine.processes(), timeout=_PATIENCE_S)
        assert not mine.processes()
    else:
        assert mine.is_clean()


def test_a_node_that_does_not_start_is_one_line(tmp_path: Path, mine: Mine) -> None:
    place = mine.directory / ("long" * 20)  # the paths of its sockets would be too long
    place.mkdir()
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"))
    done = cluster("local", config, environment=mine.environment | {"RAY_TMPDIR": str(place)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: Ray's node 0 ended") and "AF_UNIX" in done.stderr
    assert done.stderr.count("\n") == 1
    place.rmdir()
    assert mine.is_clean()
