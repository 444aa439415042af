"""What the actors of a run ask of the cluster, and whether it has that."""

import math
from collections.abc import Sequence

import ray

from pipeline.config import RunConfig
from pipeline.engine_config import PoolPlan

STAGE_CPUS = 0.25  # stages wait for actors most of the time
_REPLICAS_PER_STAGE_ACTOR = 8


def stage_actors(replicas: int) -> int:
    """How many actors a stage of the graph has that asks `replicas`."""
    return math.ceil(replicas / _REPLICAS_PER_STAGE_ACTOR)


def shortage(config: RunConfig) -> str | None:
    """What the actors of a run ask for beyond what the cluster has, in one line; None if nothing.

    Of pieces only the GPUs of a split model are counted: what fits otherwise as a sum may still
    find no node that has a whole actor's share.
    """
    sampling, scoring = (config.pool_of(kind).engine.replicas for kind in ("sample", "loss"))
    # read and sample, score and commit; execute is one actor whatever the size
    cpus = (1 + 2 * stage_actors(sampling) + 2 * stage_actors(scoring)) * STAGE_CPUS
    cpus += sum(tool.actors * tool.num_cpus for tool in config.tools.values())
    there = ray.cluster_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
    parts = missing_gpus(config, _gpus_of_nodes())
    parts += [f"{cpus:g} CPUs are asked for and {there:g} are there"] if cpus > there else []
    if not parts:
        return None
    return (
        f"{'; '.join(parts)}; see replicas, num_gpus and tensor_parallel_size of the engines, and "
        "actors, num_gpus and num_cpus of the tools"
    )


def missing_gpus(config: RunConfig, gpus_of_nodes: Sequence[float]) -> list[str]:
    """What engines and tools ask for beyond the GPUs of such nodes: in all, or of one of them."""
    asked: float = sum(pool.engine.replicas * pool.engine.gpus for pool in config.pools)
    asked += sum(tool.actors * tool.num_gpus for tool in config.tools.values())
    there = sum(gpus_of_nodes)
    lines = [f"{asked:g} GPUs are asked for and {there:g} are there"] if asked > there else []
    return lines + without_a_node(config.pools, gpus_of_nodes)


def without_a_node(pools: Sequence[PoolPlan], gpus_of_nodes: Sequence[float]) -> list[str]:
    """What is wrong, for each pool whose replicas need more GPUs of one node than nodes have.

    Each pool is counted as if it were alone: what is said is so whatever else runs.
    """
    lines = []
    for pool in pools:
        gpus, replicas = pool.engine.gpus, pool.engine.replicas
        room = sum(int(of_node // gpus) for of_node in gpus_of_nodes) if gpus else replicas
        if gpus > 1 and room < replicas:
            lines.append(
                f"pool {pool.name}: {replicas} times {gpus} GPUs of one node are asked for "
                f"(tensor_parallel_size {gpus}), the nodes have room for {room}: the largest has "
                f"{max(gpus_of_nodes, default=0.0):g} GPUs"
            )
    return lines


def _gpus_of_nodes() -> list[float]:
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return [float(node["Resources"].get("GPU", 0)) for node in nodes if node["Alive"]]
