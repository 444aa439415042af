"""The launchers that start `python -m training finetune` in several processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.pipeline.demo_runs import ROOT
from tests.training.finetune.hosts import free_port, two_hosts
from tests.training.finetune.one_step import one_step_config

_BIN = Path(sys.executable).parent


def launch(
    program: str, *arguments: str, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(_BIN / program), *arguments],
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=400,
    )


def test_deepspeed_trains_over_hosts(tmp_path: Path) -> None:
    config = one_step_config(tmp_path)
    with two_hosts(tmp_path) as hosts:
        done = launch(
            "deepspeed", *hosts.options, "--module", "training", "finetune", str(config),
            "--dataset", "dataset_plain", environment=hosts.environment,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nnodes=2, num_local_procs=1, node_rank=1" in done.stdout
    record = json.loads((tmp_path / "out" / "finetune.json").read_text())
    assert record["num_processes"] == 2
    assert record["config"]["dataset"] == "dataset_plain"
    assert (tmp_path / "out" / "model" / "model.safetensors").exists()
    assert done.stdout.count("/model: perplexity") == 1  # the first rank speaks alone


def test_what_is_wrong_for_all_ranks_is_told_once(tmp_path: Path) -> None:
    done = launch(
        "torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()),
        "-m", "training", "finetune", str(tmp_path / "none.yaml"), environment={},
    )  # fmt: skip
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert said == [f"error: {tmp_path / 'none.yaml'}: no such configuration file"]
