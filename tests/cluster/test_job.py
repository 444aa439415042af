"""The steps of a job as commands and as a shell's lines."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cluster.job import Job, Step, parse_steps
from tests.cluster.commands import environment
from tests.pipeline.demo_runs import ROOT, demo_config


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
