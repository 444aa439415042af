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
from pipeline.pools import start_pools, stop_pools, wait_for_pools
from pipeline.resources import shortage, without_a_node
from tools.base import ConfigError

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


def configured(engine: dict[str, Any], **settings: Any) -> RunConfig:
    base = {"run": "r", "input": "i", "model": {"path": "m"}, "tools": {"Calculator": {}}}
    return RunConfig.model_validate(base | {"engine": engine} | settings)


def test_pools_hold_the_gpus_of_all_replicas_until_they_are_stopped() -> None:
    config = configured({"name": "vllm", "tensor_parallel_size": 2, "replicas": 2})
    assert shortage(config) is None
    pools = start_pools(config)
    (pool,) = pools.language_models
    assert (len(pool.replicas), len(pool.groups)) == (2, 2)
    assert free_gpus(0)
    stop_pools(pools)
    assert free_gpus(4)


def test_pools_that_do_not_start_give_their_gpus_back() -> None:
    tools = {"Calculator": {"actors": 1, "num_gpus": 1.5}}  # Ray has parts of one, or whole ones
    config = configured({"name": "vllm", "tensor_parallel_size": 2, "replicas": 2}, tools=tools)
    with pytest.raises(ValueError, match=r"1\.5"):
        start_pools(config)
    assert free_gpus(4)


def test_a_pool_whose_replicas_have_no_place_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.pools._PATIENCE_S", 3.0)
    nothing = {"path": str(tmp_path / "nothing")}  # what has a place fails to load
    engines = {"loss": {"name": "torch"}}
    config = configured(
        {"name": "torch", "num_gpus": 1, "replicas": 5}, engines=engines, model=nothing
    )
    pools = start_pools(config)
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if line.startswith("pool position+sample: "):
            raise ConfigError("enough")  # it would wait for the fifth from here on

    with pytest.raises(ConfigError, match="enough"):
        wait_for_pools(pools, {}, {}, tell)
    assert " of 5 actors have no place after 3 s; each asks for num_gpus 1, free are " in told[-1]


def test_gpus_of_all_pools_are_counted() -> None:
    engines = {"loss": {"name": "vllm", "num_gpus": 1, "replicas": 3}}
    line = shortage(configured(SPLIT.model_dump(), engines=engines))
    assert line is not None and line.startswith("5 GPUs are asked for and 4 are there; see ")


@pytest.mark.parametrize(
    ("parts", "replicas", "nodes", "room"),
    [
        (4, 1, [2, 2], 0),
        (4, 1, [2, 2, 4], None),
        (2, 3, [3, 3, 0], 2),
        (2, 3, [3, 4], None),
        (3, 1, [], 0),
        (1, 5, [], None),  # none of several GPUs
    ],
)
def test_a_split_model_needs_its_gpus_on_one_node(
    parts: int, replicas: int, nodes: list[float], room: int | None
) -> None:
    engine = {"name": "vllm", "tensor_parallel_size": parts, "replicas": replicas}
    lines = without_a_node(configured(engine).pools, nodes)
    if room is None:
        assert lines == []
    else:
        assert lines == [
            f"pool position+sample+loss: {replicas} times {parts} GPUs of one node are asked for "
            f"(tensor_parallel_size {parts}), the nodes have room for {room}: the largest has "
            f"{max(nodes, default=0)} GPUs"
        ]


def test_a_node_that_is_too_small_is_named_beside_the_sum() -> None:
    line = shortage(configured({"name": "vllm", "tensor_parallel_size": 3, "replicas": 2}))
    assert line is not None and line.startswith("6 GPUs are asked for and 4 are there; pool ")
    assert "2 times 3 GPUs of one node are asked for" in line and "room for 1" in line
