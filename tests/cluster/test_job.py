"""The steps of a job as commands and as a shell's lines."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from cluster.demand import check_gpus
from cluster.job import STEPS, Job, Step, parse_steps
from tests.cluster.commands import environment
from tests.pipeline.demo_runs import ROOT, demo_config
from tools.base import ConfigError


def test_steps_are_taken_in_the_order_they_are_named() -> None:
    assert parse_steps("report, build") == (Step.REPORT, Step.BUILD)
    with pytest.raises(typer.BadParameter, match="expected some of annotate,build,report"):
        parse_steps("annotate,train")


def test_commands_name_the_run_of_the_configuration(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run="s3://bucket/run")
    job = Job.of(config)
    assert job.commands(python="py", address="10.0.0.1:6379", fixed=False) == [
        ["py", "-m", "pipeline", "annotate", str(config), "--address", "10.0.0.1:6379"],
        ["py", "-m", "pipeline", "build", "s3://bucket/run"],
        ["py", "-m", "pipeline", "report", "s3://bucket/run"],
    ]
    assert [command[6:] for command in job.commands(fixed=True)] == [
        ["auto", "--fixed-cluster"],
        [],
        [],
    ]


def finetune_config(directory: Path, **settings: object) -> Path:
    """A finetuning of the run `directory`/run, written to a file there."""
    path = directory / "finetune.yaml"
    values = {
        "run": str(directory / "run"),
        "out": str(directory / "finetuned"),
        "development": {"input": str(directory / "held-out")},
    }
    path.write_text(yaml.safe_dump(values | settings))
    return path


def test_a_finetuning_follows_on_the_same_cluster_when_it_is_asked_for(tmp_path: Path) -> None:
    config, finetune = (
        demo_config(tmp_path, 1, run=str(tmp_path / "run")),
        finetune_config(tmp_path),
    )
    job = Job.of(config, (*STEPS, Step.FINETUNE), finetune)
    *before, last = job.commands(python="py", address="10.0.0.1:6379", fixed=True)
    assert before == Job.of(config).commands(python="py", address="10.0.0.1:6379", fixed=True)
    assert last == [
        "py", "-m", "training", "finetune", str(finetune),
        "--address", "10.0.0.1:6379", "--fixed-cluster",
    ]  # fmt: skip


def test_a_finetuning_has_a_configuration_of_the_same_run(tmp_path: Path) -> None:
    config, finetune = (
        demo_config(tmp_path, 1, run=str(tmp_path / "run")),
        finetune_config(tmp_path),
    )
    with pytest.raises(ConfigError, match="go together"):
        Job.of(config, (Step.FINETUNE,))
    with pytest.raises(ConfigError, match="go together"):
        Job.of(config, (Step.BUILD,), finetune)
    other = demo_config(tmp_path, 1, run=str(tmp_path / "other"))
    with pytest.raises(ConfigError, match=r"run: .*/run is another than that of .*/other$"):
        Job.of(other, (Step.FINETUNE,), finetune)


def test_a_batch_that_all_gpus_cannot_share_is_told_before_anything_runs(tmp_path: Path) -> None:
    config, finetune = (
        demo_config(tmp_path, 1, run=str(tmp_path / "run")),
        finetune_config(tmp_path),
    )
    job = Job.of(config, (Step.FINETUNE,), finetune)
    check_gpus(job, nodes=2, gpus_per_node=8)  # 128 = 16 x 8
    with pytest.raises(ConfigError, match=r"finetune.yaml: .* no multiple of 24 processes x"):
        check_gpus(job, nodes=3, gpus_per_node=8)


def test_a_shell_ends_with_the_step_that_fails_and_names_it(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, run=str(tmp_path / "no 'run'"))
    lines = Job.of(config, (Step.REPORT, Step.BUILD)).shell_lines(fixed=True)
    done = subprocess.run(
        ["bash", "-c", "\n".join([*lines, "echo not reached"])],
        cwd=ROOT,
        env=environment() | {"PATH": f"{Path(sys.executable).parent}:/bin:/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "no 'run'" in done.stderr
    assert done.stderr.endswith("error: step report ended with exit code 1\n")
    assert "build" not in done.stderr and done.stdout == ""
