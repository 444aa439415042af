"""`cluster submit`: jobs for a Ray cluster that was there before, and what is refused."""

import http.server
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from ray.job_submission import JobStatus, JobSubmissionClient

from cluster.job import Job, Step
from cluster.nodes import ADDRESS_FILE, HEAD_OPTIONS, NODE_ENVIRONMENT, NODE_OPTIONS
from cluster.submit import end_of_job
from tests.cluster.commands import QUICK, cluster, environment, start_cluster_command
from tests.cluster.readme import arguments_of
from tests.object_store import free_port
from tests.pipeline.demo_runs import ROOT, demo_config
from tools.base import ToolformerError

_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A Ray cluster of one node."""

    address: str
    dashboard: str
    token: str

    @property
    def environment(self) -> dict[str, str]:
        """Of a user who knows the token."""
        return environment() | {"RAY_AUTH_TOKEN": self.token}

    def status(self, job_id: str) -> JobStatus:
        headers = {"Authorization": f"Bearer {self.token}"}
        return JobSubmissionClient(self.dashboard, headers=headers).get_job_status(job_id)


class Tunnel:
    """A port that leads to a cluster's dashboard, as one of ssh does, until `last` passes it."""

    def __init__(self, url: str, *, port: int = 0, last: bytes | None = None) -> None:
        where = urlsplit(url)
        self._there = (where.hostname or "", where.port or 80)
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._last, self._ends = last, [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Tunnel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Refuse connections, and break those there are."""
        for each in self._ends:
            with suppress(OSError):  # nobody listens or speaks there any more
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.create_connection(self._there)
                self._ends += [here, there]
                for source, target in ((here, there), (there, here)):
                    ways = (source, target)
                    threading.Thread(target=self._carry, args=ways, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(1 << 16):
                if self._last is not None and self._last in part:
                    self.close()
                target.sendall(part)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    """The head of a cluster, as whoever keeps one starts it."""
    directory = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    token = secrets.token_hex(16)
    theirs = environment() | NODE_ENVIRONMENT
    theirs |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    theirs["PATH"] = f"{Path(sys.executable).parent}:{theirs['PATH']}"
    process = subprocess.Popen(
        [
            "ray", "start", *HEAD_OPTIONS, *NODE_OPTIONS, "--node-ip-address=127.0.0.1",
            "--num-cpus=4", f"--temp-dir={directory}",
        ],
        cwd=directory, env=theirs, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        address = directory / ADDRESS_FILE
        deadline = time.monotonic() + _PATIENCE_S
        while not address.exists() or not address.read_text():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        said = cluster("wait", address.read_text(), environment=theirs)
        assert said.returncode == 0, said.stderr
        dashboard = said.stdout.split("dashboard: ")[1].strip()
        yield Head(address=address.read_text(), dashboard=dashboard, token=token)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)
        shutil.rmtree(directory, ignore_errors=True)


@pytest.mark.ray
def test_a_job_is_followed_to_its_end(head: Head, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = demo_config(tmp_path, 4, run=str(run), **QUICK)
    told = arguments_of("An existing cluster", config)
    assert told[-2] == "--address"
    done = cluster(
        *told[:-1], head.dashboard, "--steps", "annotate,build", environment=head.environment
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"all nodes have to see {run}" in done.stderr
    first, *log, last = done.stdout.splitlines()
    job_id = first.split()[1]
    assert last == f"job {job_id} succeeded"
    assert head.status(job_id) == JobStatus.SUCCEEDED
    assert any("4 documents in 1 units" in line for line in log)
    assert (run / "dataset").is_dir()
    assert head.token not in done.stdout + done.stderr


@pytest.mark.ray
def test_a_job_that_fails_gives_the_exit_code_of_its_step(head: Head, tmp_path: Path) -> None:
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"))
    done = cluster(
        "submit", config, "--address", head.dashboard, "--steps", "build,report",
        environment=head.environment,
    )  # fmt: skip
    assert done.returncode == 1
    assert "error: step build ended with exit code 1\n" in done.stdout
    assert done.stderr.endswith(": failed, exit code 1\n")


@pytest.mark.ray
def test_a_job_that_is_not_followed_goes_on_alone(head: Head, tmp_path: Path) -> None:
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"))
    done = cluster(
        "submit", config, "--address", head.dashboard.removeprefix("http://"), "--steps", "build",
        "--no-follow", environment=head.environment | {"RAY_ADDRESS": "http://127.0.0.1:1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.split()[1]
    assert f"ray job logs --follow {job_id} --address {head.dashboard}" in done.stdout
    deadline = time.monotonic() + _PATIENCE_S
    while not (status := head.status(job_id)).is_terminal():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert status == JobStatus.FAILED  # there is nothing yet to build of


@pytest.mark.ray
def test_a_job_is_followed_over_a_connection_that_is_lost(head: Head, tmp_path: Path) -> None:
    config = demo_config(tmp_path, 4, run=str(tmp_path / "run"))
    with Tunnel(head.dashboard, last=b"/logs/tail") as tunnel:
        process = start_cluster_command(
            "submit", config, "--address", tunnel.url, "--steps", "build",
            environment=head.environment,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            job_id = process.stdout.readline().split()[1]
            assert "the log breaks off" in process.stdout.readline()
            with Tunnel(head.dashboard, port=tunnel.port):
                out, err = process.communicate(timeout=_PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == 1, (out, err)
    assert err.endswith(f"error: job {job_id}: failed, exit code 1\n")


@pytest.mark.ray
def test_a_job_that_no_answer_comes_from_may_go_on(head: Head) -> None:
    with Tunnel(head.dashboard) as tunnel:
        client = JobSubmissionClient(tunnel.url, headers={"Authorization": f"Bearer {head.token}"})
    with pytest.raises(ToolformerError) as told:
        end_of_job(client, "raysubmit_1", tunnel.url, lost_limit_s=1)
    assert "job raysubmit_1 may go on" in str(told.value)
    assert f"`ray job logs --follow raysubmit_1 --address {tunnel.url}`" in str(told.value)
    assert "does not take the job" not in str(told.value)


@pytest.mark.ray
def test_code_that_is_too_large_for_ray_is_one_line(head: Head, tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run=str(tmp_path / "run"))
    # Not the checkout itself: what another test has shipped already is not shipped again.
    place = tmp_path / "checkout"
    place.mkdir()
    for room in ("pipeline", "tools"):
        (place / room).symlink_to(ROOT / room)
    (place / "large").write_bytes(os.urandom(300_000))
    theirs = head.environment | {"RAY_AUTH_MODE": "token", "RAY_max_grpc_message_size": "200000"}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "annotate", str(config), "--address", head.address],
        cwd=place, env=theirs, capture_output=True, text=True, timeout=_PATIENCE_S,
    )  # fmt: skip
    assert_refused(done, f"the code in {place} cannot be shipped: Package size (")
    assert "exceeds the maximum size of 0.19MiB" in done.stderr


@pytest.mark.ray
def test_a_run_that_does_not_fit_a_fixed_cluster_is_refused(head: Head, tmp_path: Path) -> None:
    engine = QUICK["engine"] | {"replicas": 3, "num_gpus": 1}
    config = demo_config(tmp_path, 1, run=str(tmp_path / "run"), **QUICK | {"engine": engine})
    theirs = head.environment | {"RAY_AUTH_MODE": "token"}
    [command] = Job.of(config, (Step.ANNOTATE,)).commands(
        python=sys.executable, address=head.address, fixed=True
    )
    done = subprocess.run(
        command, cwd=ROOT, env=theirs, capture_output=True, text=True, timeout=_PATIENCE_S
    )
    assert_refused(done, "3 GPUs are asked for and 0 are there; see replicas, num_gpus")


@pytest.mark.ray
@pytest.mark.parametrize(
    "token, why", [("wrong", "does not take this token"), ("", "asks for a token")]
)
def test_without_the_right_token_a_cluster_refuses(
    head: Head, tmp_path: Path, token: str, why: str
) -> None:
    config = demo_config(tmp_path, 1, run=str(tmp_path / "run"))
    theirs = environment() | {"RAY_AUTH_TOKEN": token, "HOME": str(tmp_path)}
    done = cluster("submit", config, "--address", head.dashboard, environment=theirs)
    assert_refused(done, why)


@pytest.mark.ray
def test_nodes_that_do_not_come_are_not_waited_for(head: Head) -> None:
    theirs = head.environment | {"RAY_AUTH_MODE": "token"}
    done = cluster("wait", head.address, "--nodes", 2, "--limit-s", 1, environment=theirs)
    assert_refused(done, "1 of 2 nodes were there after 1 s")


@pytest.mark.ray
def test_who_has_no_token_is_told_of_it(head: Head, tmp_path: Path) -> None:
    theirs = environment() | {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    done = cluster("wait", head.address, environment=theirs)
    assert_refused(done, "no authentication token was found")


def test_an_address_where_nothing_listens_is_one_line(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run=str(tmp_path / "run"))
    address = f"http://127.0.0.1:{free_port()}"
    done = cluster("submit", config, "--address", address, environment=environment())
    assert_refused(done, "nothing answers there")


def test_a_server_that_is_no_ray_cluster_is_one_line(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run=str(tmp_path / "run"))
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        done = cluster("submit", config, "--address", address, environment=environment())
        server.shutdown()
    assert_refused(done, "does not take the job")


def test_a_run_that_would_be_lost_with_the_job_is_refused(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run="runs/mine")
    done = cluster("submit", config, environment=environment())
    assert_refused(done, "expected an absolute path that all nodes see, or a store")


def test_a_finetuned_model_that_would_be_lost_with_the_job_is_refused(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    finetune = tmp_path / "finetune.yaml"
    settings = {"run": run, "out": "runs/finetuned", "development": {"input": "s3://a/held-out"}}
    finetune.write_text(yaml.safe_dump(settings))
    done = cluster(
        "submit", demo_config(tmp_path, 1, run=run), "--steps", "finetune",
        "--finetune", finetune, environment=environment(),
    )  # fmt: skip
    assert_refused(done, f"{finetune}: out: runs/finetuned is relative")


def test_a_configuration_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = cluster("submit", tmp_path / "none.yaml", environment=environment())
    assert_refused(done, "no such configuration file")


def assert_refused(done: "subprocess.CompletedProcess[str]", why: str) -> None:
    """One clear line, beside the one that says what nodes have to see."""
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if not line.startswith("all nodes")]
    assert len(lines) == 1 and lines[0].startswith("error: ") and why in lines[0], done.stderr
