"""Documents that kill their process every time: named, set apart, and tried again when mended."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipeline.failures import KILLS_PROCESS
from pipeline.status import status_table
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.survival.clusters import RayCluster, ray_cluster
from tests.pipeline.survival.plain import undisturbed
from tests.pipeline.survival.scenes import (
    NUM_DOCUMENTS,
    UNIT_DOCUMENTS,
    Scene,
    Undisturbed,
    assert_exactly_once,
    assert_undisturbed,
    documents_of,
)
from tests.ray_workers.starting import forking_server

pytestmark = pytest.mark.ray

# Each in a unit of its own, first or second of two.
POISON = {2: "read", 7: "sample", 11: "loss"}
MARKS = {number: f"dies-{kind}" for number, kind in POISON.items()}
# Its calls end the process that runs the tool, here that of the execute stage.
CALLS_POISON = 16
FAILED = {*POISON, CALLS_POISON}


@pytest.fixture(scope="module")
def read_moments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The moments of the tokenizers in all processes of the cluster."""
    return tmp_path_factory.mktemp("read")


@pytest.fixture(scope="module")
def cluster(read_moments: Path) -> Iterator[RayCluster]:
    with pytest.MonkeyPatch.context() as patch:
        crashing = Path(__file__).parent / "crashing_tokenizer"
        patch.setenv("PYTHONPATH", os.pathsep.join([str(crashing), str(ROOT)]))
        patch.setenv("CRASHING_TOKENIZER_MOMENTS", str(read_moments))
        with (
            forking_server() as worker_server,
            ray_cluster(head={"num_cpus": 4}, worker_server=worker_server) as started,
            started.joined_here(),
        ):
            yield started


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    scene = Scene(tmp_path_factory.mktemp("plain"), NUM_DOCUMENTS, marks=MARKS)
    return undisturbed(scene)


@pytest.fixture(scope="module")
def poisoned(
    cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Scene, dict[str, bytes]]:
    """A run with poison in every stage, and its unit files as they were at its end."""
    scene = Scene(
        tmp_path_factory.mktemp("poisoned"), NUM_DOCUMENTS, marks=MARKS,
        tool={"options": {"dies": [CALLS_POISON]}}, max_failed_documents=1.0,
    )  # fmt: skip
    annotated(scene)
    return scene, unit_files(scene)


def annotated(scene: Scene, *arguments: str, code: int = 0) -> str:
    """What the command of a scene prints, or says on standard error where it fails."""
    driver = scene.start_here(*arguments)
    assert driver.wait(timeout=300) == code, scene.printed() + scene.errors()
    return scene.errors() if code else scene.printed()


def unit_files(scene: Scene) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in scene.run.finished_unit_files()}


def rows_of(content: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(content)).to_pylist()
    return rows


def status_of(scene: Scene) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(status_table(scene.run))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_documents_that_kill_their_process_are_dropped_with_that_reason(
    poisoned: tuple[Scene, dict[str, bytes]],
) -> None:
    scene, _ = poisoned
    assert_exactly_once(scene)
    dropped = {row["doc_id"]: row["dropped"] for row in documents_of(scene.run) if row["dropped"]}
    assert dropped == {f"note-{number}": KILLS_PROCESS for number in POISON}
    counted = [mark.dropped for mark in scene.run.done_marks() if mark.dropped]
    assert counted == [{KILLS_PROCESS: 1}] * len(POISON)


def test_calls_that_kill_the_execute_stage_are_failed_and_no_others(
    poisoned: tuple[Scene, dict[str, bytes]],
) -> None:
    scene, _ = poisoned
    for row in documents_of(scene.run):
        expected = {"failed"} if row["doc_id"] == f"note-{CALLS_POISON}" else {"ok"}
        assert {call["status"] for call in row["calls"]} <= expected, row["doc_id"]
        assert row["calls"] or row["dropped"] == KILLS_PROCESS


def test_the_rest_of_their_units_is_as_without_them(
    poisoned: tuple[Scene, dict[str, bytes]], reference: Undisturbed
) -> None:
    _, files = poisoned
    ids = {f"note-{number}" for number in FAILED}
    assert files.keys() == reference.units.keys()
    for name, content in files.items():
        rows, expected = rows_of(content), rows_of(reference.units[name])
        assert [r for r in rows if r["doc_id"] not in ids] == [
            r for r in expected if r["doc_id"] not in ids
        ]


def test_units_without_poison_are_byte_for_byte_as_without_it(
    poisoned: tuple[Scene, dict[str, bytes]], reference: Undisturbed
) -> None:
    _, files = poisoned
    units = {f"{number // UNIT_DOCUMENTS:07d}.parquet" for number in FAILED}
    for name in files.keys() - units:
        assert files[name] == reference.units[name], name


def test_only_failed_tries_again_exactly_what_killed(
    poisoned: tuple[Scene, dict[str, bytes]],
    reference: Undisturbed,
    cluster: RayCluster,
    read_moments: Path,
) -> None:
    scene, files = poisoned
    shown = status_of(scene)
    assert f"dropped: {KILLS_PROCESS}" in shown and "finished" in shown
    untouched = {
        path: path.stat().st_mtime_ns
        for path in scene.run.finished_unit_files()
        if files[path.name] == reference.units[path.name]
    }
    assert len(untouched) == len(files) - len(FAILED)
    scene.heal()
    (read_moments / "healed").touch()
    before = scene.work()
    annotated(scene, "--only-failed")
    assert_undisturbed(scene, reference)
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    asked = {document for _, document, _ in scene.work() - before}
    assert len(asked) == UNIT_DOCUMENTS * len(FAILED)  # the units of those that failed
    assert KILLS_PROCESS not in status_of(scene)


def test_a_run_in_which_too_much_fails_stops_with_one_line(
    cluster: RayCluster, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, NUM_DOCUMENTS, tool={"options": {"down": True}}, max_failed_calls=0.05)
    line = annotated(scene, code=1)
    assert line.startswith("error: ") and line.count("\n") == 1, line
    assert "tool Calculator: " in line and "max_failed_calls 0.05" in line
    statuses = {call["status"] for row in documents_of(scene.run) for call in row["calls"]}
    assert statuses == {"failed"}
    assert len(unit_files(scene)) < NUM_DOCUMENTS // UNIT_DOCUMENTS
    assert not list(scene.run.path.rglob(".*.tmp"))
