"""Finetuning on Ray: the processes of Ray Train, and what becomes of those that are lost."""

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from torch import distributed
from typer.testing import CliRunner

from tests.pipeline.demo_runs import ROOT
from tests.training.finetune.one_step import one_step_config
from tools.base import ConfigError, InputError
from training.cli import app
from training.finetune.config import DevelopmentConfig, FinetuneConfig
from training.finetune.launch_ray import Workers, run_on_ray
from training.finetune.ray_train import finetune_on_ray

pytestmark = [
    pytest.mark.ray,
    # Ray Train asks Ray Data for settings that it does not use itself.
    pytest.mark.filterwarnings("ignore:`use_.*` is deprecated:DeprecationWarning"),
]

TWO = Workers(number=2, gpus=0, cpus=1)
GPU_NODE, CPU_NODE = {"CPU": 64.0, "GPU": 8.0}, {"CPU": 4.0}


@pytest.fixture(scope="module", autouse=True)
def prompt_ray_train() -> Iterator[None]:
    """Ray Train looks at its workers often, and at no notice of a node that is taken away."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")
        patch.setenv("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # a process of each run
        yield


# Before a test that asks for `local_ray`: the command joins the cluster itself, once.
def test_two_workers_train_on_the_cluster(
    ray_node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    config = one_step_config(tmp_path)
    # In this process: one of its own would import torch and Ray Train once more.
    done = CliRunner().invoke(
        app, ["finetune", str(config), "--address", ray_node, "--workers", "2"]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    record = json.loads((tmp_path / "out" / "finetune.json").read_text())
    assert record["num_processes"] == 2
    assert "2 processes, ZeRO-3" in done.stdout  # from rank 0, on a node
    assert f"{tmp_path / 'out' / 'model'}: perplexity" in done.stdout


def test_there_is_a_worker_for_each_gpu_or_else_for_each_node() -> None:
    assert Workers().on([GPU_NODE, CPU_NODE, GPU_NODE]) == Workers(number=16, gpus=1, cpus=1)
    assert Workers().on([CPU_NODE, {"CPU": 0.0}, CPU_NODE]) == Workers(number=2, gpus=0, cpus=1)
    assert Workers(gpus=2).on([GPU_NODE]) == Workers(number=4, gpus=2, cpus=1)
    assert Workers(number=3, gpus=0).on([GPU_NODE]) == Workers(number=3, gpus=0, cpus=1)


def test_there_is_room_where_both_cpus_and_gpus_are() -> None:
    assert Workers(gpus=1, cpus=16).room([GPU_NODE, CPU_NODE, GPU_NODE]) == 8
    assert Workers(gpus=0, cpus=3).room([CPU_NODE, CPU_NODE]) == 2


def _lose_one_then_refuse(mark: Path, console: Console | None) -> None:
    """The first time rank 1 is killed while the other waits for it."""
    rank = int(os.environ["RANK"])
    if console is not None:
        console.print(f"rank {rank} of {os.environ['WORLD_SIZE']}")
    if rank == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.barrier()
    raise InputError("the run is not built")


def test_a_lost_worker_is_started_again_and_an_error_for_the_user_ends_all(
    local_ray: None, tmp_path: Path
) -> None:
    said = io.StringIO()
    with pytest.raises(InputError, match=r"^the run is not built$"):
        run_on_ray(
            _lose_one_then_refuse, tmp_path / "mark", TWO,
            directory=tmp_path, console=Console(file=said, width=200),
        )  # fmt: skip
    first, loss, second = said.getvalue().splitlines()
    assert first == second == "rank 0 of 2"
    assert loss.startswith("a worker is lost, all start again: ")
    assert "process has died" in loss  # not what rank 0 noticed of it


def test_more_workers_than_a_fixed_cluster_holds_are_refused(local_ray: None) -> None:
    config = FinetuneConfig(
        run=Path("run"), out=Path("out"), development=DevelopmentConfig(input=Path("held-out"))
    )
    workers = Workers(number=9, gpus=0)
    with pytest.raises(ConfigError, match=r"^9 workers of 1 CPU .* room for 4 on the cluster$"):
        finetune_on_ray(
            config, workers, address=None, fixed_cluster=True, console=Console(file=io.StringIO())
        )
