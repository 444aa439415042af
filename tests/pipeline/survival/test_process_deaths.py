"""Whole runs whose processes are killed, one after the other: nothing is lost, doubled or changed.

All runs share one cluster and, but for the driver that is killed, this process as their driver's.
They are compared with one run without Ray.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.survival.clusters import RayCluster, ray_cluster
from tests.pipeline.survival.scenes import (
    NUM_DOCUMENTS,
    UNIT_DOCUMENTS,
    Scene,
    Undisturbed,
    assert_undisturbed,
    at_most,
    kill_tree,
)
from tools.usage import total_usage

pytestmark = pytest.mark.ray

NUM_UNITS = NUM_DOCUMENTS // UNIT_DOCUMENTS
# A stage holds what keeps one replica busy: a unit at work and one that waits. Sample, execute and
# score are three stages.
IN_FLIGHT = 3 * 2 * UNIT_DOCUMENTS


@pytest.fixture(scope="module")
def cluster(worker_server: Path) -> Iterator[RayCluster]:
    with (
        ray_cluster(head={"num_cpus": 4}, worker_server=worker_server) as started,
        started.joined_here(),
    ):
        yield started


def test_a_killed_driver_is_continued_by_the_same_command(
    cluster: RayCluster, reference: Undisturbed, tmp_path: Path
) -> None:
    # While one replica is held, the other goes on: units are finished before the driver is killed.
    scene = Scene(tmp_path, NUM_DOCUMENTS, engine={"replicas": 2})
    scene.hold("loss", 13)
    driver = scene.start(*cluster.joined, ray_directory=cluster.directory)
    try:
        scene.held("loss", 13, driver)
        scene.wait_for_units(3, driver)
        driver.kill()
        driver.wait()
        kept = {unit: scene.run.unit_path(unit).stat() for unit in scene.run.marked_units()}
    finally:
        kill_tree(driver)
    finished(scene)
    assert_undisturbed(scene, reference)
    for unit, before in kept.items():
        after = scene.run.unit_path(unit).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_killed_workers_of_every_stage_and_a_killed_tool_change_nothing(
    cluster: RayCluster, reference: Undisturbed, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, NUM_DOCUMENTS, tool={"actors": 1})
    moments = {
        ("sample", 3): "ReadStage",
        ("sample", 7): "LMStage",
        ("tool", 11): "ExecuteStage",
        ("loss", 15): "LMStage",
        ("tool", 19): "ToolHost",
        ("loss", 20): "CommitStage",
    }
    for moment in moments:
        scene.hold(*moment)
    driver = scene.start_here()
    while moments:  # what a killed stage held comes later: any order is right
        moment, _ = scene.first_held(moments, driver)
        oldest, *_ = cluster.find(moments.pop(moment))
        os.kill(oldest, signal.SIGKILL)
        scene.release(*moment)
    scene.finish(driver)
    assert_undisturbed(scene, reference)
    assert at_most(IN_FLIGHT, scene.repeated(reference))
    usage = total_usage(mark.tools for mark in scene.run.done_marks())["Calculator"]
    assert usage.restarts >= 1 and usage.retries >= 1 and usage.failures == 0


@pytest.fixture(scope="module")
def replicas_killed(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A finished run whose replicas were killed in the middle."""
    scene = Scene(tmp_path_factory.mktemp("replicas"), NUM_DOCUMENTS, engine={"replicas": 2})
    scene.die_once("sample", 5)
    scene.die_once("loss", 10)
    scene.end_by_ray_once("position", 17)
    finished(scene)
    return scene


def test_killed_replicas_repeat_the_unit_they_were_at_work_on(
    replicas_killed: Scene, reference: Undisturbed
) -> None:
    scene = replicas_killed
    assert_undisturbed(scene, reference)
    assert at_most(3 * UNIT_DOCUMENTS, scene.repeated(reference))
    assert len(scene.processes()) >= 3


def test_killed_replicas_of_engines_of_their_own_change_nothing(
    cluster: RayCluster, reference: Undisturbed, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, NUM_DOCUMENTS)
    scene.change(
        engines={"position": scene.engine(token_budget=512), "loss": scene.engine(token_budget=256)}
    )
    for kind, number in (("position", 4), ("sample", 11), ("loss", 16)):
        scene.die_once(kind, number)
    finished(scene)
    assert_undisturbed(scene, reference)
    # Sampling asks all three, and a replica of S is at work on two units when P is elsewhere.
    assert at_most(3 * 2 * UNIT_DOCUMENTS, scene.repeated(reference))


def test_files_that_are_torn_or_left_over_cost_their_own_units_alone(
    replicas_killed: Scene, reference: Undisturbed
) -> None:
    scene = replicas_killed
    run, before = scene.run, scene.work()
    run.unit_path("0000001").write_bytes(b"PAR1 torn")
    run.done_path("0000001").unlink()
    mark = run.done_path("0000003").read_bytes()
    run.done_path("0000003").write_bytes(mark[: len(mark) // 2])
    run.done_path("0000005").write_bytes(b"")
    content = run.unit_path("0000007").read_bytes()
    run.unit_path("0000007").write_bytes(content[:-1])
    run.unit_path("0000009").unlink()
    for path in (run.unit_path("0000002"), run.done_path("0000002"), run.record_path):
        path.with_name(f".{path.name}.0123456789abcdef0123456789abcdef.tmp").write_bytes(b"torn")
    assert f"({NUM_UNITS - 5} were done before)" in finished(scene)
    assert_undisturbed(scene, reference)
    again = scene.work() - before
    assert again <= before  # each request of theirs once more
    assert len({document for _, document, _ in again}) == 5 * UNIT_DOCUMENTS


def finished(scene: Scene) -> str:
    """What the command of a scene prints that runs to its end undisturbed from outside."""
    return scene.finish(scene.start_here())
