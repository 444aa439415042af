"""The actors beside the graph: language models and tools, sized by the configuration.

They outlive every execution of the graph, so that weights and indexes are loaded once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from pipeline.config import ModelConfig, RunConfig
from pipeline.engine_config import Kind, PoolPlan
from pipeline.engines.actor import LMActor
from pipeline.engines.checkpoint import weights_id
from pipeline.engines.placement import placed, release
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.replaceable import check_replaceable
from pipeline.stages.tool_access import ToolAccess
from pipeline.stages.tool_process import load_actors
from tools.actors import ToolActor, health_of
from tools.base import ConfigError

STAGE_CPUS = 0.25  # stages wait for actors most of the time
_REPLICAS_PER_STAGE_ACTOR = 8
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LMPool:
    """The replicas of one engine. `groups` hold their GPUs where each has several."""

    plan: PoolPlan
    replicas: Sequence[Any]
    groups: Sequence[Any] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The actors that outlive every execution of the graph."""

    model: ModelConfig  # what the replicas were started with
    language_models: Sequence[LMPool]
    tools: Sequence[ToolAccess]

    def replicas_of(self, kind: Kind) -> Sequence[Any]:
        """The replicas that answer `kind`; units are sampled by those of "sample"."""
        return next(pool.replicas for pool in self.language_models if kind in pool.plan.kinds)


def stage_actors(replicas: int) -> int:
    """How many actors a stage of the graph has that asks `replicas`."""
    return math.ceil(replicas / _REPLICAS_PER_STAGE_ACTOR)


def start_pools(config: RunConfig) -> Pools:
    """Start the language-model replicas and the tool actors; returns before they have loaded."""
    return Pools(
        model=config.model,
        language_models=_start_language_models(config),
        tools=[
            access_to(
                name,
                config,
                actors=[
                    ToolActor.options(num_gpus=tool.num_gpus, num_cpus=tool.num_cpus).remote(
                        name, tool.factory, tool.options
                    )
                    for _ in range(tool.actors)
                ],
            )
            for name, tool in config.tools.items()
        ],
    )


def _start_language_models(config: RunConfig) -> list[LMPool]:
    """The pool that samples last: its replicas know those that answer P and L for them."""
    sampling = config.pool_of("sample")
    elsewhere: dict[Kind, Sequence[Any]] = {}
    pools = []
    for plan in sorted(config.pools, key=lambda plan: plan == sampling):
        routes = elsewhere if plan == sampling else {}
        options = [placed(plan.engine) for _ in range(plan.engine.replicas)]
        replicas = [
            LMActor.options(**option.actor).remote(config.model, plan, **routes)
            for option in options
        ]
        groups = [option.group for option in options if option.group is not None]
        pools.append(LMPool(plan=plan, replicas=replicas, groups=groups))
        elsewhere |= dict.fromkeys(plan.kinds, replicas)
    return pools


def stop_pools(pools: Pools) -> None:
    """Give back the GPUs that are held in groups; the other actors end when nobody holds them."""
    release([group for pool in pools.language_models for group in pool.groups])


def access_to(name: str, config: RunConfig, *, actors: Sequence[Any] = ()) -> ToolAccess:
    """How the tool called `name` is reached; in the process that asks when there are no actors."""
    tool = config.tools[name]
    return ToolAccess(
        name=name,
        factory=tool.factory,
        options=tool.options,
        timeout_s=tool.timeout_s,
        batch_size=tool.batch_size,
        retries=tool.retries,
        cache=config.tool_cache,
        num_gpus=tool.num_gpus,
        num_cpus=tool.num_cpus,
        actors=actors,
    )


def wait_for_pools(
    pools: Pools,
    expected: Mapping[Kind, EngineInfo],
    tool_versions: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    """Return once the replicas have loaded their weights and the tools their data.

    One line for each tool whose actors find no place goes to `tell`.

    Raises:
        RayTaskError: one of them cannot; its cause is the error that says why.
        ConfigError: a node runs another model, another torch or another version of a tool than
            the run was planned for.
        ToolformerError: a tool's process dies of loading.
    """
    infos = [[lm.info.remote() for lm in pool.replicas] for pool in pools.language_models]
    for access in pools.tools:
        for actor in access.actors:
            actor.load.remote()  # all at once; the answers are read below
    tell_of_unplaced(pools.tools, tell, patience_s=_PATIENCE_S)
    for access in pools.tools:
        if access.actors:
            served, planned = load_actors(access.name, access.actors), tool_versions[access.name]
            if served.version != planned:
                raise ConfigError(
                    f"tool {access.name}: its actors serve version {served.version}, the run was "
                    f"planned for {planned}; are its files the same on every node?"
                )
    for pool, asked in zip(pools.language_models, infos, strict=True):
        planned_info = expected[pool.plan.kinds[0]]
        for info in ray.get(asked):
            if info != planned_info:
                raise ConfigError(f"a replica runs {info}, the run was planned for {planned_info}")


def load_weights(pools: Pools, path: str, revision: str | None = None) -> dict[Kind, EngineInfo]:
    """Go on with other weights of the same architecture and tokenizer: what answers each kind.

    For a second round of self-training, between two runs of the graph. Replicas that Ray
    restarts later load these weights again. What is no such checkpoint is refused before any
    replica is asked; where one of them then fails, the pools are of no further use.

    Raises:
        ConfigError: the checkpoint is missing, of another shape or tokenizer, or another one on
            some node.
        RayTaskError: a replica cannot load it; its cause is the error that says why.
    """
    model = ModelConfig(path=path, revision=revision)
    check_replaceable(pools.model.path, pools.model.revision, model.path, revision)
    expected = weights_id(model.path, revision)
    asked = [
        (pool, [lm.load_weights.remote(model.path, revision) for lm in pool.replicas])
        for pool in pools.language_models
    ]
    infos: dict[Kind, EngineInfo] = {}
    for pool, answers in asked:
        for info in ray.get(answers):
            if info.weights_id != expected:
                raise ConfigError(
                    f"{path}: a replica has loaded weights {info.weights_id}, expected {expected}; "
                    "is the checkpoint the same on every node?"
                )
            infos |= dict.fromkeys(pool.plan.kinds, info)
    return infos


def tell_of_unplaced(
    tools: Sequence[ToolAccess], tell: Callable[[str], None], *, patience_s: float
) -> None:
    """Return once all tool actors have a place, or after `patience_s` with a line for each tool."""
    # An actor that loads says how it is all the same; one without a place cannot.
    asked = {health_of(actor): access for access in tools for actor in access.actors}
    if not asked:
        return
    _, silent = ray.wait(list(asked), num_returns=len(asked), timeout=patience_s)
    for access in tools:
        num_silent = sum(asked[call] is access for call in silent)
        if num_silent:
            free = ray.available_resources()  # type: ignore[no-untyped-call]
            tell(
                f"tool {access.name}: {num_silent} of {len(access.actors)} actors have no place "
                f"after {patience_s:g} s; each asks for num_gpus {access.num_gpus:g} and "
                f"num_cpus {access.num_cpus:g}, free are {free.get('GPU', 0):g} GPUs and "
                f"{free.get('CPU', 0):g} CPUs; still waiting"
            )


def shortage(config: RunConfig) -> str | None:
    """What the actors of a run ask for beyond what the cluster has, in one line; None if nothing.

    Pieces are not counted: a sum that fits may still find no node that has a whole actor's share.
    """
    tools = config.tools.values()
    gpus: float = sum(pool.engine.replicas * pool.engine.gpus for pool in config.pools)
    gpus += sum(tool.actors * tool.num_gpus for tool in tools)
    sampling, scoring = (config.pool_of(kind).engine.replicas for kind in ("sample", "loss"))
    # read and sample, score and commit; execute is one actor whatever the size
    cpus = (1 + 2 * stage_actors(sampling) + 2 * stage_actors(scoring)) * STAGE_CPUS
    cpus += sum(tool.actors * tool.num_cpus for tool in tools)
    there = ray.cluster_resources()  # type: ignore[no-untyped-call]
    parts = [
        f"{asked:g} {kind}s are asked for and {there.get(kind, 0):g} are there"
        for kind, asked in (("GPU", gpus), ("CPU", cpus))
        if asked > there.get(kind, 0)
    ]
    if not parts:
        return None
    return (
        f"{'; '.join(parts)}; see replicas, num_gpus and tensor_parallel_size of the engines, and "
        "actors, num_gpus and num_cpus of the tools"
    )
