"""`cluster slurm`: the script that is submitted, and jobs of a real Slurm cluster."""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

from cluster.config import ClusterConfig, Slurm, load_cluster_config
from cluster.job import Job
from cluster.slurm import batch_script
from tests.cluster.commands import (
    QUICK,
    cluster,
    command_lines,
    environment,
    files_with,
    processes_with,
    variable_of,
)
from tests.cluster.readme import arguments_of, section_of
from tests.cluster.slurmd import SlurmCluster, missing
from tests.pipeline.demo_runs import ROOT, demo_config
from tools.base import ConfigError


def script_of(tmp_path: Path, config: ClusterConfig, directory: Path = ROOT) -> str:
    return batch_script(Job.of(demo_config(tmp_path, 1, run="run")), config, directory)


def options_of(script: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in script.splitlines() if "#SBATCH" in line]


def test_options_of_the_configuration_are_those_of_the_script(tmp_path: Path) -> None:
    slurm = Slurm(partition="gpu", time="1-00:00:00", requeue=False, extra=("--exclusive",))
    script = script_of(tmp_path, ClusterConfig(name="a", nodes=3, slurm=slurm), Path("/x y/100%"))
    assert options_of(script) == [
        "--job-name=a", "--output='/x y/100%%/a-%j.log'", "--open-mode=append", "--nodes=3",
        "--ntasks-per-node=1", "--cpus-per-task=64", "--mem=256G", "--gres=gpu:8", "--no-requeue",
        "--partition=gpu", "--time=1-00:00:00", "--exclusive",
    ]  # fmt: skip
    assert "--gres" not in script_of(tmp_path, ClusterConfig(gpus_per_node=0))


def test_setup_and_variables_reach_a_shell_as_they_are(tmp_path: Path) -> None:
    config = ClusterConfig(env={"WORDS": "it's $HOME"}, setup=('OTHER="$WORDS!"', "export OTHER"))
    prepare = script_of(tmp_path, config).split("# One node")[0]
    done = subprocess.run(
        ["bash", "-c", prepare + 'prepare; echo "$OTHER $PWD"'], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"it's $HOME! {ROOT}\n", "")


def test_the_example_of_the_readme_is_a_configuration(tmp_path: Path) -> None:
    example = tmp_path / "example.yaml"
    example.write_text(section_of("Slurm").split("```yaml\n")[1].split("```")[0])
    script = script_of(tmp_path, load_cluster_config(example))
    assert {"--partition=gpu", "--requeue", "--exclusive"} <= set(options_of(script))


@pytest.mark.parametrize(
    "section, why",
    [
        ("time: 1:00:00", 'YAML makes 3600 of it; write it in quotes, as "1-12:00:00"'),
        ("partition: 'a b'", "slurm.partition: String should match"),
        ("extra: [exclusive]", "slurm.extra.0: String should match"),
        ("queue: gpu", "slurm.queue: Extra inputs are not permitted"),
    ],
)
def test_options_that_cannot_be_are_named(tmp_path: Path, section: str, why: str) -> None:
    described = tmp_path / "cluster.yaml"
    described.write_text(f"slurm: {{{section}}}")
    with pytest.raises(ConfigError, match=re.escape(why)):
        load_cluster_config(described)


def test_without_slurm_the_script_can_be_printed_alone(tmp_path: Path) -> None:
    nowhere, kept = environment() | {"PATH": str(tmp_path)}, tmp_path / "job.sbatch"
    config = demo_config(tmp_path, 1)
    refused = cluster(*arguments_of("Slurm", config, line=1), environment=nowhere)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1 and "no sbatch on this machine" in refused.stderr
    told = arguments_of("Slurm", config)
    printed = cluster(*told, "--out", kept, environment=nowhere).stdout
    assert printed == kept.read_text()
    assert subprocess.run(["bash", "-n"], input=printed, text=True).returncode == 0


def test_a_token_of_the_user_is_not_given_to_slurm(tmp_path: Path) -> None:
    # A stand-in that keeps the environment, as Slurm does.
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/kept; echo 7\n")
    sbatch.chmod(0o700)
    theirs = {"PATH": str(tmp_path), "RAY_AUTH_TOKEN": "mine", "RAY_AUTH_TOKEN_PATH": "/a/file"}
    told = arguments_of("Slurm", demo_config(tmp_path, 1), line=1)
    done = cluster(*told, environment=environment() | theirs)
    assert done.returncode == 0, done.stderr
    kept = (tmp_path / "kept").read_text().splitlines()
    assert "RAY_AUTH_TOKEN_PATH=/a/file" in kept
    assert not [line for line in kept if "mine" in line]
    assert "RAY_AUTH_TOKEN is not handed on" in done.stderr


def test_a_run_that_no_node_has_gpus_for_is_not_submitted(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 1, engine={"replicas": 33, "num_gpus": 1})
    refused = cluster(*arguments_of("Slurm", config), environment=environment())
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert "33 GPUs are asked for and 32 are there" in refused.stderr


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    if why := missing():
        pytest.skip(why)
    slurm = SlurmCluster("n1", "n2", "n3")
    yield slurm
    slurm.stop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job that our command gave to Slurm."""

    id: str
    log: Path
    run: Path

    def said_since_restart(self) -> str:
        """What its log says of its second life."""
        return self.log.read_text().rpartition("ending the Ray cluster")[2]

    def processes(self) -> list[psutil.Process]:
        return processes_with("SLURM_JOB_ID", self.id)

    def left(self) -> list[object]:
        """What stays of it on its nodes: processes, and directories of Ray's."""
        # Workers end by themselves when they see that their node is gone.
        psutil.wait_procs(self.processes(), timeout=60)
        return [*self.processes(), *Path("/tmp").glob(f"tf-{self.id}-*")]


@pytest.fixture
def submit(slurm: SlurmCluster, tmp_path: Path) -> Iterator[Callable[..., Submitted]]:
    """Submits an annotation of so many documents to small nodes."""
    logs: list[Path] = []

    def submit(documents: int, *options: str, **size: object) -> Submitted:
        place = tmp_path / str(len(logs))
        place.mkdir()
        # Units of four seconds: a job is met between its first and its last.
        engine = QUICK["engine"] | {"options": {"seconds_per_document": 1}}
        changes = QUICK | {"engine": engine, "run": str(place / "run")}
        config = demo_config(place, documents, **changes)
        described = place / "c.yaml"
        small = {"name": "test", "cpus_per_node": 2, "gpus_per_node": 0, "memory_gib": 4}
        described.write_text(yaml.safe_dump(small | size))
        done = cluster(
            "slurm", config, described, *options, environment=environment() | slurm.environment
        )
        assert done.returncode == 0, done.stderr
        words = done.stdout.split()
        assert words[0] == "job" and words[2:5] == ["is", "submitted", "its"]
        job = Submitted(id=words[1], log=ROOT / f"test-{words[1]}.log", run=place / "run")
        logs.append(job.log)
        assert f"{job.log} " in done.stdout and f"scancel {job.id}\n" in done.stdout
        return job

    yield submit
    for log in logs:
        log.unlink(missing_ok=True)


@pytest.mark.ray
def test_a_job_that_is_queued_again_continues_beside_another_and_leaves_nothing(
    slurm: SlurmCluster, submit: Callable[..., Submitted]
) -> None:
    job = submit(16, "--steps", "annotate", nodes=2, gpus_per_node=1)
    slurm.wait_while_it_runs(job.id, lambda: any(job.run.glob("_done/*.json")))
    before = {mark: mark.stat().st_mtime_ns for mark in job.run.glob("_done/*.json")}
    assert len(before) < 4
    directories = [path for path in Path("/tmp").glob(f"tf-{job.id}-*") if path.is_dir()]
    assert len(directories) == 2  # one on each node
    [metrics] = Path("/tmp").glob(f"tf-{job.id}-*.json")
    slurm.wait_while_it_runs(job.id, metrics.exists)
    slurm.ask("scontrol", "requeue", job.id)
    slurm.wait_for(lambda: slurm.job(job.id)["JobState"] == "PENDING")
    assert job.left() == []
    fails = submit(4, "--steps", "build,report", nodes=1)
    slurm.ask("scontrol", "update", f"JobId={job.id}", "StartTime=now")
    slurm.wait_while_it_runs(job.id, lambda: "Ray nodes: 2" in job.said_since_restart())
    tokens = {variable_of(process, "RAY_AUTH_TOKEN") for process in job.processes()} - {None}
    [token] = tokens
    assert token is not None and len(token) == 64
    assert token not in command_lines()
    for end, job_of_it, state, code in (
        (slurm.wait_for_end(job.id), job, "COMPLETED", "0:0"),
        (slurm.wait_for_end(fails.id), fails, "FAILED", "1:0"),
    ):
        assert (end["JobState"], end["ExitCode"]) == (state, code), job_of_it.log.read_text()
        assert job_of_it.left() == []
    assert "error: step build ended with exit code 1\n" in fails.log.read_text()
    said = job.log.read_text()
    assert slurm.job(job.id)["Restarts"] == "1", said
    assert "ssh -N -L 8265:127.0.0.1:" in said
    assert len(list(job.run.glob("_done/*.json"))) == 4
    assert {mark: mark.stat().st_mtime_ns for mark in before} == before
    assert token not in said
    assert files_with(token, job.run) == files_with(token, slurm.directory) == []


def test_a_head_that_does_not_start_ends_the_job(
    slurm: SlurmCluster, submit: Callable[..., Submitted]
) -> None:
    job = submit(4, setup=["ray() { echo it is broken; return 3; }"])
    end = slurm.wait_for_end(job.id)
    said = job.log.read_text()
    assert (end["JobState"], end["ExitCode"]) == ("FAILED", "1:0"), said
    assert "it is broken\n" in said
    assert "error: the head of the Ray cluster did not start\n" in said
    assert job.left() == []


@pytest.mark.ray
def test_one_node_of_several_that_does_not_start_ends_the_job_by_its_name(
    slurm: SlurmCluster, submit: Callable[..., Submitted]
) -> None:
    others = "ray() { case $SLURMD_NODENAME in n2) exec sleep 600;; n3) return 3;; esac; "
    job = submit(4, nodes=3, cpus_per_node=1, setup=[others + 'exec ray "$@"; }'])
    end = slurm.wait_for_end(job.id)
    said = job.log.read_text()
    assert (end["JobState"], end["ExitCode"]) == ("FAILED", "1:0"), said
    assert "error: node n3 of the Ray cluster did not start\n" in said
    assert job.left() == []
