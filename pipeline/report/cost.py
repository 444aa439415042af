"""What a run cost in hours of GPUs, or of CPU threads where the model has none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.config import RunConfig
from pipeline.engine_config import PoolPlan
from tools.usage import ToolUsage

MODEL_STAGES = ("sample", "score")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCost:
    """Hours of the GPUs (or CPU threads) of one pool of replicas, or of one tool's processes.

    `at_work_hours` is the time units were worked on times what a replica has, also by stage; None
    where `busy_is_known` says no. `held_hours` is the working time of the run on the clock (without
    pauses) times what all replicas have, as last configured. Both are of the last time each unit
    was made (where what failed was tried again, of that alone), without loading and what was lost:
    units that a crash broke off, and what counts as a pause. What somebody pays for is more.
    """

    pool: str
    resource: Literal["GPU", "CPU"]
    replicas: int
    per_replica: float
    at_work_hours: float | None
    by_stage: dict[str, float]
    held_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run cost; part of report/stats.json.

    `resource` is what the model ran on: GPUs, or CPU threads where no pool has a GPU. The sums are
    over all pools (and tools) with that resource; `pools` has the others too.
    """

    resource: Literal["GPU", "CPU"]
    pools: list[PoolCost]
    at_work_hours: float | None  # None where it is not known of one of them
    held_hours: float
    tokens: int  # through the model, padding included
    tokens_per_hour_at_work: float | None
    tokens_per_hour_held: float | None


def cost(
    config: RunConfig,
    seconds: Mapping[str, float],
    tokens: int,
    usage: Mapping[str, ToolUsage],
    working_s: float,
) -> Cost:
    """The cost of a run whose stages took `seconds`, on the clock `working_s` without pauses."""
    stages = MODEL_STAGES if busy_is_known(config.pools) else ()
    pools = [_of_pool(pool, stages, seconds, working_s) for pool in config.pools]
    pools += _of_tools(config, usage, working_s)
    resource: Literal["GPU", "CPU"] = (
        "GPU" if any(pool.engine.gpus for pool in config.pools) else "CPU"
    )
    mine = [pool for pool in pools if pool.resource == resource]
    known = [pool.at_work_hours for pool in mine if pool.at_work_hours is not None]
    at_work = round(sum(known), 6) if len(known) == len(mine) else None
    held = round(sum(pool.held_hours for pool in mine), 6)
    return Cost(
        resource=resource,
        pools=pools,
        at_work_hours=at_work,
        held_hours=held,
        tokens=tokens,
        tokens_per_hour_at_work=_per_hour(tokens, at_work),
        tokens_per_hour_held=_per_hour(tokens, held),
    )


def busy_is_known(pools: Sequence[PoolPlan]) -> bool:
    """Whether the seconds of the stages that use the model are those of one replica at work.

    They are not where a replica works on several units at once, nor where kinds of work have pools
    of their own: a stage's time is then that of one pool and of waiting for another.
    """
    return len(pools) == 1 and pools[0].units_at_once == 1


def _of_pool(
    pool: PoolPlan, stages: Sequence[str], seconds: Mapping[str, float], working_s: float
) -> PoolCost:
    """What a pool cost; `stages` are those whose time is its own, empty where that is not known."""
    has_gpus = pool.engine.gpus > 0
    per_replica = pool.engine.gpus if has_gpus else pool.engine.num_threads
    by_stage = {stage: round(seconds.get(stage, 0.0) * per_replica / 3600, 6) for stage in stages}
    return PoolCost(
        pool=pool.name,
        resource="GPU" if has_gpus else "CPU",
        replicas=pool.engine.replicas,
        per_replica=per_replica,
        at_work_hours=round(sum(by_stage.values()), 6) if stages else None,
        by_stage=by_stage,
        held_hours=round(working_s * pool.engine.replicas * per_replica / 3600, 6),
    )


def _of_tools(
    config: RunConfig, usage: Mapping[str, ToolUsage], working_s: float
) -> Iterator[PoolCost]:
    """The processes of tools that have GPUs."""
    for name, tool in config.tools.items():
        if tool.actors and tool.num_gpus:
            seconds = usage[name].seconds if name in usage else 0.0
            at_work = round(seconds * tool.num_gpus / 3600, 6)
            yield PoolCost(
                pool=f"tool {name}",
                resource="GPU",
                replicas=tool.actors,
                per_replica=tool.num_gpus,
                at_work_hours=at_work,
                by_stage={"execute": at_work},
                held_hours=round(working_s * tool.actors * tool.num_gpus / 3600, 6),
            )


def _per_hour(tokens: int, hours: float | None) -> float | None:
    return round(tokens / hours, 1) if tokens and hours else None
