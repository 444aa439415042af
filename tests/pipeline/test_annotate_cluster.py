"""`annotate --address`: the same run on a Ray cluster that was there before."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.config import load_config
from tests.pipeline.demo_runs import ROOT, demo_config, pipeline, unit_bytes
from tests.pipeline.plain_run import plainly_annotated

pytestmark = pytest.mark.ray

PROMPT = ROOT / "pipeline" / "configs" / "demo_prompts" / "Calculator.txt"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(ray_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a head node with a token of its own, ended by its process group."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    monkeypatch.setenv("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0")  # nothing runs at its end
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="tf-head-", dir="/tmp") as temporary:
        head = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "ray"), "start", "--head", "--block",
                f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=4",
                "--include-dashboard=false", "--include-log-monitor=false", "--no-monitor",
                f"--temp-dir={temporary}",
            ],
            cwd=temporary, start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_for(port, head)
            yield f"127.0.0.1:{port}"
        finally:
            os.killpg(head.pid, signal.SIGTERM)
            head.wait(timeout=60)


def wait_for(port: int, head: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        assert head.poll() is None, "the head node ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the head node does not listen")


def test_a_running_cluster_gives_the_bytes_of_a_run_without_ray(
    cluster: str, tmp_path: Path, ray_directory: Path
) -> None:
    config = demo_config(tmp_path, 8, tools={"Calculator": {"prompt": str(PROMPT), "k": 2, "m": 2}})
    there, plain = tmp_path / "there", tmp_path / "plain"
    pipeline("annotate", config, "--run", there, "--address", cluster, ray_directory=ray_directory)
    assert len(unit_bytes(there)) == 2
    assert unit_bytes(there) == plainly_annotated(load_config(config, run=plain))


def test_an_address_where_nothing_runs_is_one_clear_line(
    tmp_path: Path, ray_directory: Path
) -> None:
    config = demo_config(tmp_path, 8)
    refused = pipeline(
        "annotate", config, "--run", tmp_path / "run", "--address", f"127.0.0.1:{free_port()}",
        ray_directory=ray_directory, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "no Ray cluster" in refused.stderr
    assert "Traceback" not in refused.stderr
