"""Whole runs with input and output in a store: the bytes and the safety of runs on a disk."""

import gzip
import json
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import ray
from upath import UPath

from pipeline.rundir import RunDir
from tests.object_store import Server, free_port, without_credentials
from tests.pipeline.demo_runs import ROOT, pipeline_here, unit_bytes
from tests.pipeline.survival.plain import undisturbed
from tests.pipeline.survival.scenes import UNIT_DOCUMENTS, Scene, Undisturbed, kill_tree
from tools.places import Place, is_remote, list_files, put_bytes, read_bytes

pytestmark = pytest.mark.ray

NUM_DOCUMENTS = 12
UNITS = [f"{n:07d}.parquet" for n in range(NUM_DOCUMENTS // UNIT_DOCUMENTS)]


def raw_files(scene: Scene) -> dict[str, bytes]:
    """The documents of a scene in two gzipped files of JSON lines."""
    texts = pq.read_table(scene.config_path.with_name("documents.parquet"))["text"].to_pylist()
    lines = [
        json.dumps({"url": f"https://example.org/{number}", "text": text}).encode()
        for number, text in enumerate(texts)
    ]
    halves = {"a.json.gz": lines[: NUM_DOCUMENTS // 2], "b.json.gz": lines[NUM_DOCUMENTS // 2 :]}
    return {name: gzip.compress(b"\n".join(half), mtime=0) for name, half in halves.items()}


def contents(directory: Place) -> dict[str, bytes]:
    """Every file below a directory by its name."""
    if is_remote(directory):
        return {name: read_bytes(directory / name) for name in list_files(directory)}
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def command(*arguments: object) -> tuple[str, str]:
    """What `python -m pipeline ARGUMENTS` prints, and its errors."""
    done = pipeline_here(*arguments, check=False)
    return done.stdout, done.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """A run in a store whose driver was killed in the middle, and one on a disk like it."""

    undisturbed: Undisturbed
    local: Path  # holds the same corpus, and the finished run, copied
    remote: UPath
    before: set[str]  # units finished when the driver was killed
    stamps: dict[str, Any]  # what the store said of their files then
    second: str  # what a second writer was told
    unfinished: str  # what status showed after the kill
    again: str  # what the command printed that continued


@pytest.fixture(scope="module")
def ray_that_reaches_it(ray_node: str, s3_server: Server) -> Iterator[None]:
    """A Ray whose workers reach the store, though it was there before it."""
    ray.init(
        address=ray_node, runtime_env={"env_vars": s3_server.environment()}, log_to_driver=False,
        logging_level=logging.ERROR,
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def runs(
    bucket: UPath,
    tmp_path_factory: pytest.TempPathFactory,
    ray_directory: Path,
    ray_that_reaches_it: None,
) -> Runs:
    local, remote = tmp_path_factory.mktemp("local"), bucket / "run"
    # While one replica is held, the other goes on: units are finished before the driver is killed.
    scene = Scene(local / "scene", NUM_DOCUMENTS, engine={"replicas": 2})
    for name, content in raw_files(scene).items():
        put_bytes(bucket / "raw" / name, content)
        (local / "raw").mkdir(exist_ok=True)
        (local / "raw" / name).write_bytes(content)
    command("ingest", local / "raw", "--out", local / "corpus")
    scene.change(input=str(local / "corpus"))
    reference = undisturbed(scene)

    command("ingest", bucket / "raw", "--out", bucket / "corpus")
    scene.change(input=str(bucket / "corpus"), run=str(remote))
    scene.run = RunDir(remote)
    before, stamps, second = killed(scene, ray_directory)
    unfinished, _ = command("status", remote)
    again = scene.finish(scene.start_here())
    for name, content in contents(remote).items():
        (local / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (local / "run" / name).write_bytes(content)
    return Runs(
        undisturbed=reference, local=local, remote=remote, before=before, stamps=stamps,
        second=second, unfinished=unfinished, again=again,
    )  # fmt: skip


def killed(scene: Scene, ray_directory: Path) -> tuple[set[str], dict[str, Any], str]:
    """Begins a run and kills its driver at a document of unit 4; see Runs for what comes back."""
    scene.hold("loss", 9)
    driver = scene.start("--no-dashboard", ray_directory=ray_directory)
    try:
        scene.held("loss", 9, driver)
        scene.wait_for_units(2, driver)
        _, second = command("build", scene.run.path)
    finally:
        kill_tree(driver)
    assert isinstance(scene.run.path, UPath)
    before, files = scene.run.marked_units(), list_files(scene.run.path / "units")
    stamps = {unit_id: files[f"{unit_id}.parquet"]["LastModified"] for unit_id in before}
    return before, stamps, second


def test_an_ingested_corpus_has_the_same_bytes(runs: Runs, bucket: UPath) -> None:
    local, remote = contents(runs.local / "corpus"), contents(bucket / "corpus")
    corpus = ["a.json.gz.parquet", "b.json.gz.parquet"]
    assert sorted(local) == sorted(remote) == [*corpus, "ingest.json"]
    for name in corpus:
        assert local[name] == remote[name]


def test_the_driver_was_killed_in_the_middle(runs: Runs) -> None:
    assert len(runs.before) >= 2 and "0000004" not in runs.before
    assert "unfinished" in runs.unfinished
    done_before = re.search(r"\((\d+) were done before\)", runs.again)
    # What was on its way to the store when its process was killed may have arrived.
    assert done_before and len(runs.before) <= int(done_before.group(1)) < len(UNITS)


def test_a_continued_run_in_a_store_has_the_bytes_of_one_on_a_disk(runs: Runs) -> None:
    assert sorted(unit_bytes(runs.remote)) == UNITS
    assert unit_bytes(runs.remote) == runs.undisturbed.units


def test_finished_units_stay_as_they_are(runs: Runs) -> None:
    now = list_files(runs.remote / "units")
    assert runs.stamps == {unit: now[f"{unit}.parquet"]["LastModified"] for unit in runs.stamps}


def test_a_second_writer_is_refused_in_one_line(runs: Runs) -> None:
    assert runs.second.count("\n") == 1
    assert f"{runs.remote}: another process is writing to this run (process " in runs.second


def test_nothing_but_the_run_is_left(runs: Runs) -> None:
    marks = [f"_done/{name.replace('parquet', 'json')}" for name in UNITS]
    units = [f"units/{name}" for name in UNITS]
    expected = {"manifest.parquet", "run.json", *marks, *units}
    found = {n for n in list_files(runs.remote) if not n.startswith(("dataset", "report", "build"))}
    assert found == expected


def test_build_and_report_write_into_the_store_what_they_write_to_a_disk(runs: Runs) -> None:
    put_bytes(runs.remote / "dataset" / "part-00007.parquet", b"of an earlier, larger build")
    for run in (runs.local / "run", runs.remote):
        for name in ("build", "report"):
            _, errors = command(name, run)
            assert not errors
    for name in ("dataset", "dataset_plain"):
        here, there = contents(runs.local / "run" / name), contents(runs.remote / name)
        assert list(there) == ["part-00000.parquet"] and here == there
    here, there = (
        json.loads(read_bytes(run / "report" / "stats.json"))
        for run in (runs.local / "run", runs.remote)
    )
    assert here["tools"] == there["tools"] and there["documents"] == NUM_DOCUMENTS
    assert here["tools"]["Calculator"]["executed"] > 0
    build = (runs.local / "run" / "build.json").read_bytes()
    assert read_bytes(runs.remote / "build.json") == build
    assert b"Calculator" in read_bytes(runs.remote / "report" / "index.html")


def test_status_and_inspect_read_the_store(runs: Runs) -> None:
    shown, _ = command("status", runs.remote)
    assert "6 of 6" in shown and "12 of 12 (100.0%)" in shown
    shown, _ = command("inspect", runs.remote, "--limit", "3")
    assert "Calculator(" in shown


def test_an_ingest_of_the_same_files_reads_none_again(runs: Runs, bucket: UPath) -> None:
    before = list_files(bucket / "corpus")["a.json.gz.parquet"]["LastModified"]
    time.sleep(1.1)  # the store tells seconds
    shown, _ = command("ingest", bucket / "raw", "--out", bucket / "corpus")
    assert shown.count("done before") == 2
    assert list_files(bucket / "corpus")["a.json.gz.parquet"]["LastModified"] == before


def test_stores_that_cannot_be_used_are_one_line(bucket: UPath, tmp_path: Path) -> None:
    _, errors = command("status", "s3://no-such-bucket/run")
    assert errors.count("\n") == 1
    assert "no-such-bucket/run: cannot be read: The specified bucket does not exist" in errors
    # Who asks, and whom, is decided once in a process.
    nowhere = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}", "AWS_MAX_ATTEMPTS": "1"}
    asked = {
        "Unable to locate credentials": without_credentials(tmp_path),
        "Could not connect to the endpoint URL": os.environ | nowhere,
    }
    asking = {
        says: subprocess.Popen(
            [sys.executable, "-m", "pipeline", "status", f"{bucket}run"],
            cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for says, env in asked.items()
    }  # fmt: skip
    for says, process in asking.items():
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 1 and errors.count("\n") == 1, errors
        assert f"{bucket}run: cannot be read: {says}" in errors
