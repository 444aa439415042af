"""Nodes that go in the middle of a run, with the replicas and stages on them.

The head has no CPUs: all replicas and stages are on nodes that can go. Each has one GPU, so that
every replica has a node of its own.
"""

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
)

pytestmark = pytest.mark.ray

NODE = {"num_cpus": 2, "num_gpus": 1}
# Between stages a unit is only where the stage before it ran: a node takes them all with it.
IN_FLIGHT_OF_A_REPLICA = 4 * 2 * UNIT_DOCUMENTS


@pytest.fixture(scope="module")
def cluster(worker_server: Path) -> Iterator[RayCluster]:
    with (
        ray_cluster(head={"num_cpus": 0}, worker_server=worker_server) as started,
        started.joined_here(),
    ):
        yield started


@pytest.fixture(autouse=True)
def no_nodes_left(cluster: RayCluster) -> Iterator[None]:
    yield
    for node in cluster.others:
        cluster.remove(node)


def test_replicas_go_on_where_there_is_room_and_with_fewer_where_there_is_none(
    cluster: RayCluster, reference: Undisturbed, tmp_path: Path
) -> None:
    for _ in range(3):  # of which one is spare
        cluster.add(**NODE)
    scene = Scene(tmp_path, NUM_DOCUMENTS, engine={"replicas": 2, "num_gpus": 1})
    moments = (("sample", 5), ("loss", 12))
    for moment in moments:
        scene.hold(*moment)
    driver = scene.start_here()
    for kind, number in moments:
        cluster.remove(cluster.node_of(scene.held(kind, number, driver)))
        scene.release(kind, number)
    scene.finish(driver)
    assert_undisturbed(scene, reference)
    assert len(scene.processes()) == 3  # the third on the spare node, and no fourth
    assert at_most(2 * IN_FLIGHT_OF_A_REPLICA, scene.repeated(reference))


def test_a_run_whose_last_node_goes_waits_for_the_next(
    cluster: RayCluster, reference: Undisturbed, tmp_path: Path
) -> None:
    only = cluster.add(**NODE)
    scene = Scene(tmp_path, NUM_DOCUMENTS, engine={"num_gpus": 1})
    scene.hold("sample", 13)
    driver = scene.start_here()
    scene.held("sample", 13, driver)
    cluster.remove(only)
    cluster.wait_until_dead(only.node_id)
    cluster.add(**NODE)
    scene.finish(driver)
    assert_undisturbed(scene, reference)
    assert len(scene.processes()) == 2
    assert at_most(IN_FLIGHT_OF_A_REPLICA, scene.repeated(reference))
