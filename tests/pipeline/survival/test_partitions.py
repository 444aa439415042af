"""A network that parts real nodes in the middle of a run, for a moment and for good."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.survival.namespaces import RealNodes, real_nodes
from tests.pipeline.survival.scenes import (
    NUM_DOCUMENTS,
    UNIT_DOCUMENTS,
    Scene,
    Undisturbed,
    assert_undisturbed,
    at_most,
    kill_tree,
)

pytestmark = pytest.mark.ray

SHORT_S = 2.5  # before Ray misses a node: four checks of at least a second
IN_FLIGHT_OF_A_REPLICA = 4 * 2 * UNIT_DOCUMENTS  # in four stages; see test_node_loss.py
WORKERS = ("left", "right")


@pytest.fixture
def nodes() -> Iterator[RealNodes]:
    """A head that only coordinates, and two nodes with a GPU each."""
    with real_nodes(*WORKERS) as started:
        started.start("head", "--num-cpus=0")
        for name in WORKERS:
            started.start(name, "--num-cpus=2", "--num-gpus=1")
        yield started


def test_a_short_partition_costs_nothing_and_a_lasting_one_the_work_in_flight(
    nodes: RealNodes, reference: Undisturbed, tmp_path: Path
) -> None:
    scene = Scene(tmp_path, NUM_DOCUMENTS, engine={"replicas": 2, "num_gpus": 1})
    scene.hold("sample", 5)
    scene.hold("sample", 13)
    driver = scene.start(
        *nodes.joined, ray_directory=nodes.directory, prefix=nodes.namespaces.entering("head")
    )
    try:
        parted = where(nodes, scene.held("sample", 5, driver))
        nodes.namespaces.cut(parted)
        scene.release("sample", 5)  # it answers into the void, which has to be sent again
        time.sleep(SHORT_S)
        nodes.namespaces.mend(parted)
        parted = where(nodes, scene.held("sample", 13, driver))
        assert not scene.repeated(reference)
        nodes.namespaces.cut(parted)
        scene.release("sample", 13)
        scene.finish(driver)
    finally:
        kill_tree(driver)
    assert_undisturbed(scene, reference)
    assert len(scene.processes()) == 2
    repeated = scene.repeated(reference)
    assert repeated  # the answer of the parted node never came
    assert at_most(IN_FLIGHT_OF_A_REPLICA, repeated)


def where(nodes: RealNodes, pid: int) -> str:
    """The node a replica runs on."""
    return next(name for name in WORKERS if pid in nodes.workers(name, "LMHost"))
