"""The whole workflow on one screen: units of CCNet documents in, committed scored units out.

Ray Data carries units; language models and tools are actors of their own beside it, so that
sampling and scoring share weights and a restart of the graph does not reload them. A unit is
one block in every stage. Nothing is filtered, joined or regrouped between read and commit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset

from pipeline.config import RunConfig
from pipeline.engine_config import PoolPlan
from pipeline.method import Method
from pipeline.pools import Pools
from pipeline.resources import STAGE_CPUS, stage_actors
from pipeline.rundir import DoneMark
from pipeline.schemas import COMMITTED, conform
from pipeline.stages.commit import CommitStage
from pipeline.stages.execute import ExecuteStage
from pipeline.stages.language_model import LMStage
from pipeline.stages.read import ReadStage
from pipeline.units import Unit
from tools.places import Place

# Ray Data holds about 10 KB for each unit of an execution; engines live through all waves. At the
# end of a wave replicas run out of units: for less than a 500th of the time with so many each.
UNITS_PER_WAVE = 2_000
_UNITS_PER_WAVE_AND_REPLICA = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be annotated, and where it is committed."""

    units: Sequence[Unit]
    retried: frozenset[str]  # those that are finished, and in which what failed is tried again
    run_path: Place

    def part(self, units: Sequence[Unit]) -> "Work":
        """The work on these of its units."""
        ids = frozenset(unit.unit_id for unit in units)
        return replace(self, units=units, retried=self.retried & ids)


def run_graph(work: Work, config: RunConfig, method: Method, pools: Pools) -> Iterator[DoneMark]:
    """The mark of each unit of `work`, in the order they are committed."""
    configure_ray_data()
    replicas = sum(pool.engine.replicas for pool in config.pools)
    size = max(UNITS_PER_WAVE, replicas * _UNITS_PER_WAVE_AND_REPLICA)
    for start in range(0, len(work.units), size):
        wave = work.part(work.units[start : start + size])
        committed = graph(wave, config, method, pools)
        for rows in committed.iter_batches(
            batch_size=None, batch_format="pyarrow", prefetch_batches=0
        ):
            for mark in conform(rows, COMMITTED, stage="commit").column("mark").to_pylist():
                yield DoneMark.model_validate_json(mark)
        pools.dispatcher.stages_ended.remote()


def graph(work: Work, config: RunConfig, method: Method, pools: Pools) -> Dataset:
    """read -> sample -> execute -> score -> commit, one block per unit."""
    model = (config.model.path, config.model.revision)
    sampling, scoring = config.pool_of("sample"), config.pool_of("loss")
    units_of_work = ray.data.from_items(
        [asdict(unit) for unit in work.units], override_num_blocks=len(work.units)
    )
    documents = _stage(units_of_work, sampling, ReadStage, *model, method, pools.dispatcher)
    sampled = _stage(documents, sampling, LMStage, "sample", pools.access_to("sample"), method)
    # One actor asks the tools: of two, one would count the other's batch into its timeouts.
    tools = (pools.tools, *model, method.max_result_tokens, pools.dispatcher)
    executed = _stage(sampled, scoring, ExecuteStage, *tools, size=1)
    scored = _stage(executed, scoring, LMStage, "score", pools.access_to("loss"), method)
    tau_f = {name: tool.tau_f for name, tool in method.tools.items()}
    commit = (work.run_path, work.units, work.retried, pools.dispatcher, tau_f)
    return _stage(scored, scoring, CommitStage, *commit)


def _stage(
    rows: Dataset, pool: PoolPlan, stage: Any, *arguments: Any, size: int | None = None
) -> Dataset:
    """`rows` through a fixed set of `stage` actors that together hold what keeps `pool` busy."""
    size = size or stage_actors(pool.engine.replicas)
    in_flight = math.ceil(pool.units_in_flight / size)
    return rows.map_batches(
        stage,
        fn_constructor_args=arguments,
        compute=ActorPoolStrategy(
            size=size,
            max_tasks_in_flight_per_actor=in_flight,
            max_concurrent_calls_per_actor=in_flight,
        ),
        batch_size=None,  # a batch is a block is a unit
        batch_format="pyarrow",
        num_cpus=STAGE_CPUS,
    )


def configure_ray_data() -> None:
    """Bound the run-ahead, keep a unit in one block, and leave the terminal to our progress bar."""
    context = DataContext.get_current()
    context.target_max_block_size = None  # a unit that is split would be committed in pieces
    context.downstream_capacity_backpressure_ratio = 1.0
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_options.preserve_order = False
    context.raise_original_map_exception = True  # the wrapper's cause is lost between processes
