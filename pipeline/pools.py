"""The actors beside the graph: language models and tools, sized by the configuration.

They outlive every execution of the graph, so that weights and indexes are loaded once.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from pipeline.config import ModelConfig, RunConfig
from pipeline.engine_config import Kind, PoolPlan
from pipeline.engines.actor import Elsewhere, LMActor
from pipeline.engines.checkpoint import weights_id
from pipeline.engines.dispatcher import dispatcher_name, start_dispatcher
from pipeline.engines.gone import GONE
from pipeline.engines.placement import placed, release
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.replaceable import check_replaceable
from pipeline.engines.watched_pool import PoolMembers
from pipeline.stages.language_model import PoolAccess
from pipeline.stages.tool_access import ToolAccess
from pipeline.stages.tool_process import load_actors
from pipeline.tool_config import ServedTool
from tools.actors import ToolActor, health_of
from tools.base import ConfigError, ToolformerError

_PATIENCE_S = 60.0
# So often a replica may die of its first load; the others begin without it then.
_LOADS, _BETWEEN_LOADS_S = 3, 1.0


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
    dispatcher: Any  # it knows which replicas are free; see engines/dispatcher.py

    def access_to(self, kind: Kind) -> PoolAccess:
        """How those are reached that answer `kind`; units are sampled by those of "sample"."""
        pool = next(pool for pool in self.language_models if kind in pool.plan.kinds)
        return PoolAccess(
            pool=pool.plan.name, replicas=tuple(pool.replicas), dispatcher=self.dispatcher
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Actors of one kind that were asked something they answer at once, if they have a place."""

    who: str
    calls: Sequence[Any]
    each: str  # what each of them needs


def start_pools(config: RunConfig) -> Pools:
    """Start the language-model replicas and the tool actors; returns before they have loaded."""
    with ExitStack() as undo:
        dispatcher = dispatcher_name()
        language_models = _start_language_models(config, dispatcher, undo)
        pools = Pools(
            model=config.model,
            language_models=language_models,
            dispatcher=start_dispatcher(dispatcher, list(map(_members, language_models))),
            tools=[
                access_to(
                    name,
                    tool,
                    cache=config.tool_cache,
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
        undo.pop_all()
    return pools


def _members(pool: LMPool) -> PoolMembers:
    return PoolMembers(name=pool.plan.name, replicas=pool.replicas, at_once=pool.plan.units_at_once)


def _start_language_models(config: RunConfig, dispatcher: str, undo: ExitStack) -> list[LMPool]:
    """The pool that samples last: its replicas know those that answer P and L for them.

    `undo` gives back the groups, which, unlike actors, do not end when nobody holds them.
    """
    sampling = config.pool_of("sample")
    elsewhere: dict[Kind, Elsewhere] = {}
    pools = []
    for plan in sorted(config.pools, key=lambda plan: plan == sampling):
        routes = elsewhere if plan == sampling else {}
        replicas, groups = [], []
        for _ in range(plan.engine.replicas):
            place = placed(plan.engine)
            if place.group is not None:
                undo.callback(release, [place.group])
                groups.append(place.group)
            replicas.append(LMActor.options(**place.actor).remote(config.model, plan, routes))
        pools.append(LMPool(plan=plan, replicas=replicas, groups=groups))
        other = Elsewhere(pool=plan.name, replicas=replicas, dispatcher=dispatcher)
        elsewhere |= dict.fromkeys(plan.kinds, other)
    return pools


def stop_pools(pools: Pools) -> None:
    """Give back the GPUs that are held in groups; the other actors end when nobody holds them."""
    release([group for pool in pools.language_models for group in pool.groups])


def kill_pools(pools: Pools) -> None:
    """End all actors at once, whoever holds them."""
    replicas = [replica for pool in pools.language_models for replica in pool.replicas]
    tools = [actor for access in pools.tools for actor in access.actors]
    for actor in (*replicas, *tools, pools.dispatcher):
        ray.kill(actor)


def access_to(
    name: str, tool: ServedTool, *, cache: Path | None, actors: Sequence[Any] = ()
) -> ToolAccess:
    """How the tool called `name` is reached; in the process that asks when there are no actors.

    `cache` is the directory that its answers are kept in, if any.
    """
    return ToolAccess(
        name=name,
        factory=tool.factory,
        options=tool.options,
        timeout_s=tool.timeout_s,
        batch_size=tool.batch_size,
        retries=tool.retries,
        cache=cache,
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

    One line goes to `tell` for each tool and pool whose actors find no place, and for each pool
    whose engine cannot ask for P in its best way.

    Raises:
        RayTaskError: one of them cannot; its cause is the error that says why.
        ConfigError: a node runs another model, another torch or another version of a tool than
            the run was planned for.
        ToolformerError: a tool's process dies of loading, or all replicas of a pool do.
    """
    asked = [_asked_of_pool(pool) for pool in pools.language_models]  # before they load
    loading = [_Loading(pool) for pool in pools.language_models]
    for access in pools.tools:
        for actor in access.actors:
            actor.load.remote()  # all at once; the answers are read below
    tell_of_unplaced(pools.tools, tell, patience_s=_PATIENCE_S, replicas=asked)
    for access in pools.tools:
        if access.actors:
            served, planned = load_actors(access.name, access.actors), tool_versions[access.name]
            if served.version != planned:
                raise ConfigError(
                    f"tool {access.name}: its actors serve version {served.version}, the run was "
                    f"planned for {planned}; are its files the same on every node?"
                )
    for pool, load in zip(pools.language_models, loading, strict=True):
        planned_info = expected[pool.plan.kinds[0]]
        ray.get(pools.dispatcher.expect.remote(pool.plan.name, planned_info))
        for info in load.infos(tell):
            if info != planned_info:
                raise ConfigError(f"a replica runs {info}, the run was planned for {planned_info}")
        remark = load.remark()
        if remark is not None:
            tell(f"pool {pool.plan.name}: {remark}")


class _Loading:
    """The replicas of a pool while they load for the first time, all at once."""

    def __init__(self, pool: LMPool) -> None:
        self._pool = pool
        self._asked = {lm.info.remote(): lm for lm in pool.replicas}
        self._loaded: list[Any] = []

    def infos(self, tell: Callable[[str], None]) -> list[EngineInfo]:
        """What those that have loaded run, at least one; who dies of it is told of.

        Raises:
            RayTaskError: one cannot load; its cause is the error that says why.
            ToolformerError: all die of it.
        """
        infos, deaths = [], Counter[Any]()
        while self._asked:
            (ready,), _ = ray.wait(list(self._asked), num_returns=1)
            replica = self._asked.pop(ready)
            try:
                infos.append(ray.get(ready))
                self._loaded.append(replica)
            except RayTaskError:
                raise
            except GONE:
                deaths[replica] += 1
                if deaths[replica] < _LOADS:
                    time.sleep(_BETWEEN_LOADS_S)
                    self._asked[replica.info.remote()] = replica
        missing = len(self._pool.replicas) - len(infos)
        dying = f"pool {self._pool.plan.name}: {missing} of {len(self._pool.replicas)} replicas"
        if not infos:
            raise ToolformerError(
                f"{dying} died {_LOADS} times of loading: see whether memory is short, or run one "
                "with `python -m pipeline preview`"
            )
        if missing:
            tell(f"{dying} died {_LOADS} times of loading; the others begin without them")
        return infos

    def remark(self) -> str | None:
        """What a replica says of itself; None where none of those that have loaded answers."""
        for replica in self._loaded:
            try:
                remark: str | None = ray.get(replica.remark.remote())
            except GONE:
                continue  # it died while others loaded
            return remark
        return None


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
        ray.get(pools.dispatcher.expect.remote(pool.plan.name, None))
        for info in ray.get(answers):
            if info.weights_id != expected:
                raise ConfigError(
                    f"{path}: a replica has loaded weights {info.weights_id}, expected {expected}; "
                    "is the checkpoint the same on every node?"
                )
            infos |= dict.fromkeys(pool.plan.kinds, info)
        ray.get(pools.dispatcher.expect.remote(pool.plan.name, infos[pool.plan.kinds[0]]))
    return infos


def tell_of_unplaced(
    tools: Sequence[ToolAccess],
    tell: Callable[[str], None],
    *,
    patience_s: float,
    replicas: Sequence[Asked] = (),
) -> None:
    """Return once all actors have a place, or after `patience_s` with a line for each group."""
    # An actor that loads answers all the same; one without a place cannot.
    groups = [*map(_asked_of_tool, tools), *replicas]
    calls = [call for group in groups for call in group.calls]
    if not calls:
        return
    _, silent = ray.wait(calls, num_returns=len(calls), timeout=patience_s)
    for group in groups:
        num_silent = len(set(group.calls).intersection(silent))
        if num_silent:
            free = ray.available_resources()  # type: ignore[no-untyped-call]
            tell(
                f"{group.who}: {num_silent} of {len(group.calls)} actors have no place after "
                f"{patience_s:g} s; each asks for {group.each}, free are {free.get('GPU', 0):g} "
                f"GPUs and {free.get('CPU', 0):g} CPUs; still waiting"
            )


def _asked_of_tool(access: ToolAccess) -> Asked:
    return Asked(
        who=f"tool {access.name}",
        calls=[health_of(actor) for actor in access.actors],
        each=f"num_gpus {access.num_gpus:g} and num_cpus {access.num_cpus:g}",
    )


def _asked_of_pool(pool: LMPool) -> Asked:
    gpus = pool.plan.engine.gpus
    return Asked(
        who=f"pool {pool.plan.name}",
        calls=[lm.has_a_place.remote() for lm in pool.replicas],
        each=f"num_gpus {gpus}" + " of one node" * (gpus > 1),
    )
