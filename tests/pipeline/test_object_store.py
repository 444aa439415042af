"""Whole runs with input and output in a store: the bytes and the safety of runs on a disk."""

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from upath import UPath

from pipeline.cli import main
from pipeline.rundir import RunDir
from tests.object_store import free_port, without_credentials
from tests.pipeline.demo_runs import DEMO, ROOT, environment, pipeline, unit_bytes
from tools.places import Place, is_remote, list_files, put_bytes, read_bytes

pytestmark = pytest.mark.ray

NUM_DOCUMENTS = 12
UNITS = [f"{n:07d}.parquet" for n in range(6)]
ENGINE = "pipeline.engines.scripted:ScriptedEngine"
PROMPT = ROOT / "pipeline" / "configs" / "demo_prompts" / "Calculator.txt"


def raw_files() -> dict[str, bytes]:
    """Two gzipped files of JSON lines."""
    rows = pq.read_table(DEMO / "documents.parquet").slice(0, NUM_DOCUMENTS).to_pylist()
    lines = [json.dumps({"url": row["url"], "text": row["text"]}).encode() for row in rows]
    halves = {"a.json.gz": lines[: NUM_DOCUMENTS // 2], "b.json.gz": lines[NUM_DOCUMENTS // 2 :]}
    return {name: gzip.compress(b"\n".join(half), mtime=0) for name, half in halves.items()}


def configuration(path: Path, source: Place, run: Place, **options: float) -> Path:
    config: dict[str, Any] = {
        "run": str(run),
        "input": str(source),
        "model": {"path": str(DEMO / "model")},
        "engine": {"name": ENGINE, "replicas": 1, "options": options},
        "unit_documents": 2,
        "sampling": {"max_new_tokens": 16},
        "tools": {"Calculator": {"prompt": str(PROMPT), "k": 2, "m": 2}},
    }
    path.write_text(yaml.safe_dump(config))
    return path


def contents(directory: Place) -> dict[str, bytes]:
    """Every file below a directory by its name."""
    if is_remote(directory):
        return {name: read_bytes(directory / name) for name in list_files(directory)}
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def command(*arguments: object) -> tuple[str, str]:
    """What `python -m pipeline ARGUMENTS` prints, and its errors; in this process, which is not
    that of an annotation: to start one takes longer than the work.
    """
    printed, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
        redirect_stderr(errors),
        pytest.raises(SystemExit),
    ):
        patch.setattr(sys, "argv", ["pipeline", *map(str, arguments)])
        patch.setenv("COLUMNS", "200")
        patch.chdir(ROOT)
        main()
    return printed.getvalue(), errors.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The same work on a disk and in a store, where its driver was killed in the middle."""

    local: Path
    remote: UPath
    before: set[str]  # units finished when the driver was killed
    stamps: dict[str, Any]  # what the store said of their files then
    second: str  # what a second writer was told
    unfinished: str  # what status showed after the kill
    again: str  # what the command printed that continued


@pytest.fixture(scope="module")
def runs(bucket: UPath, tmp_path_factory: pytest.TempPathFactory, ray_directory: Path) -> Runs:
    directory = tmp_path_factory.mktemp("local")
    for name, content in raw_files().items():
        put_bytes(bucket / "raw" / name, content)
        (directory / "raw").mkdir(exist_ok=True)
        (directory / "raw" / name).write_bytes(content)
    config = configuration(directory / "local.yaml", directory / "corpus", directory / "run")
    command("ingest", directory / "raw", "--out", directory / "corpus")
    pipeline("annotate", config, "--no-dashboard", ray_directory=ray_directory)

    remote, source = bucket / "run", bucket / "corpus"
    command("ingest", bucket / "raw", "--out", source)
    config = configuration(directory / "remote.yaml", source, remote, seconds_per_document=0.4)
    before, stamps, second = killed(config, RunDir(remote), ray_directory)
    unfinished, _ = command("status", remote)
    again = pipeline("annotate", config, "--no-dashboard", ray_directory=ray_directory)
    return Runs(
        local=directory, remote=remote, before=before, stamps=stamps, second=second,
        unfinished=unfinished, again=again.stdout,
    )  # fmt: skip


def killed(config: Path, run: RunDir, ray_directory: Path) -> tuple[set[str], dict[str, Any], str]:
    """Begins a run and kills its driver after two units; see Runs for what comes back."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "annotate", str(config), "--no-dashboard"],
        cwd=ROOT, env=environment(ray_directory), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while len(run.marked_units()) < 1:
            assert driver.poll() is None, "the run ended before it could be killed"
            time.sleep(0.05)
        _, second = command("build", run.path)
        while len(run.marked_units()) < 2:
            time.sleep(0.05)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    assert isinstance(run.path, UPath)
    before, files = run.marked_units(), list_files(run.path / "units")
    stamps = {unit_id: files[f"{unit_id}.parquet"]["LastModified"] for unit_id in before}
    return before, stamps, second


def test_an_ingested_corpus_has_the_same_bytes(runs: Runs, bucket: UPath) -> None:
    local, remote = contents(runs.local / "corpus"), contents(bucket / "corpus")
    corpus = ["a.json.gz.parquet", "b.json.gz.parquet"]
    assert sorted(local) == sorted(remote) == [*corpus, "ingest.json"]
    for name in corpus:
        assert local[name] == remote[name]


def test_the_driver_was_killed_in_the_middle(runs: Runs) -> None:
    assert 2 <= len(runs.before) < len(UNITS)
    assert "unfinished" in runs.unfinished
    done_before = re.search(r"\((\d+) were done before\)", runs.again)
    # What outlived the driver for a moment may have committed more.
    assert done_before and len(runs.before) <= int(done_before.group(1)) < len(UNITS)


def test_a_continued_run_in_a_store_has_the_bytes_of_one_on_a_disk(runs: Runs) -> None:
    assert sorted(unit_bytes(runs.remote)) == UNITS
    assert unit_bytes(runs.remote) == unit_bytes(runs.local / "run")


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
