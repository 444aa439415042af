"""Replicas of a split model hold their GPUs as a group. Ray counts GPUs that are not there."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group_table

from pipeline.config import RunConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.placement import placed, release
from pipeline.pools import shortage, start_pools, stop_pools

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_with_gpus")]

SPLIT = EngineConfig(name="vllm", tensor_parallel_size=2)


@pytest.fixture(scope="module")
def ray_with_gpus(ray_directory: Path) -> Iterator[None]:
    ray.init(
        address="local", num_cpus=2, num_gpus=4, include_dashboard=False, log_to_driver=False,
        _temp_dir=str(ray_directory),
    )  # fmt: skip
    yield
    ray.shutdown()


class Placed:
    """Says where it runs, and where what it starts runs."""

    def group(self) -> str:
        group = ray.util.get_current_placement_group()
        return "none" if group is None else str(group.id.hex())

    def group_of_a_worker(self) -> str:
        worker: Any = ray.remote(num_cpus=0, num_gpus=1)(Placed)
        self.worker = worker.remote()
        return str(ray.get(self.worker.group.remote()))


def free_gpus(expected: float) -> bool:
    """Whether so many GPUs are free, now or soon: what is given back arrives a moment later."""
    for _ in range(600):
        if ray.available_resources().get("GPU", 0.0) == expected:  # type: ignore[no-untyped-call]
            return True
        time.sleep(0.1)
    return False


def test_a_split_replica_and_its_workers_are_in_one_group() -> None:
    placement = placed(SPLIT)
    assert placement.group is not None
    actor: Any = ray.remote(num_cpus=0)(Placed)
    actor = actor.options(**placement.actor).remote()
    assert ray.get(actor.group.remote()) == placement.group.id.hex()
    assert ray.get(actor.group_of_a_worker.remote()) == placement.group.id.hex()
    table = placement_group_table(placement.group)
    assert (table["strategy"], table["state"]) == ("STRICT_PACK", "CREATED")
    assert list(table["bundles"].values()) == [{"GPU": 1.0}, {"GPU": 1.0}]
    assert free_gpus(2)
    release([placement.group])
    assert free_gpus(4)


def test_a_whole_replica_needs_no_group() -> None:
    assert placed(EngineConfig(num_gpus=1)).actor == {"num_gpus": 1}
    assert placed(EngineConfig()).actor == {"num_gpus": 0}
    assert placed(EngineConfig(num_gpus=1)).group is None


def test_pools_hold_the_gpus_of_all_replicas_until_they_are_stopped() -> None:
    config = RunConfig.model_validate(
        {"run": "r", "input": "i", "model": {"path": "m"}, "tools": {"Calculator": {}}}
        | {"engine": {"name": "vllm", "tensor_parallel_size": 2, "replicas": 2}}
    )
    assert shortage(config) is None
    pools = start_pools(config)
    (pool,) = pools.language_models
    assert (len(pool.replicas), len(pool.groups)) == (2, 2)
    assert free_gpus(0)
    stop_pools(pools)
    assert free_gpus(4)


def test_gpus_of_all_pools_are_counted() -> None:
    engines = {"loss": {"name": "vllm", "num_gpus": 1, "replicas": 3}}
    config = RunConfig.model_validate(
        {"run": "r", "input": "i", "model": {"path": "m"}, "tools": {"Calculator": {}}}
        | {"engine": SPLIT.model_dump(), "engines": engines}
    )
    line = shortage(config)
    assert line is not None and line.startswith("5 GPUs are asked for and 4 are there; see ")
