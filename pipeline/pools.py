"""The actors beside the graph: language models and tools, sized by the configuration.

They outlive every execution of the graph, so that weights and indexes are loaded once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from pipeline.config import RunConfig
from pipeline.engines.actor import LMActor
from pipeline.engines.protocol import EngineInfo
from pipeline.stages.tool_access import ToolAccess
from pipeline.stages.tool_process import load_actors
from tools.actors import ToolActor, health_of
from tools.base import ConfigError

STAGE_CPUS = 0.25  # stages wait for actors most of the time
_NUM_SCALED_STAGES = 4  # read, sample, score, commit; execute is one actor whatever the size
_REPLICAS_PER_STAGE_ACTOR = 8
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The actors that outlive every execution of the graph."""

    language_models: Sequence[Any]
    tools: Sequence[ToolAccess]


def stage_actors(replicas: int) -> int:
    """How many actors each stage of the graph has, but for execute."""
    return math.ceil(replicas / _REPLICAS_PER_STAGE_ACTOR)


def start_pools(config: RunConfig) -> Pools:
    """Start the language-model replicas and the tool actors; returns before they have loaded."""
    gpus = config.engine.num_gpus
    return Pools(
        language_models=[
            LMActor.options(num_gpus=gpus).remote(config.model, config.engine)
            for _ in range(config.engine.replicas)
        ],
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
    expected: EngineInfo,
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
    infos = [lm.info.remote() for lm in pools.language_models]
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
    for info in ray.get(infos):
        if info != expected:
            raise ConfigError(f"a replica runs {info}, the run was planned for {expected}")


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
    gpus = config.engine.replicas * config.engine.num_gpus
    gpus += sum(tool.actors * tool.num_gpus for tool in tools)
    cpus = (1 + _NUM_SCALED_STAGES * stage_actors(config.engine.replicas)) * STAGE_CPUS
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
        f"{'; '.join(parts)}; see engine.replicas, engine.num_gpus, and actors, num_gpus and "
        "num_cpus of the tools"
    )
