"""The whole workflow on one screen: units of CCNet documents in, committed scored units out.

Ray Data carries units; language models and tools are actors of their own beside it, so that
sampling and scoring share weights and a restart of the graph does not reload them. A unit is
one block in every stage. Nothing is filtered, joined or regrouped between read and commit.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset

from pipeline.config import RunConfig
from pipeline.engine_config import PoolPlan
from pipeline.method import Method
from pipeline.pools import Pools
from pipeline.resources import STAGE_CPUS, stage_actors
from pipeline.stages.commit import UnitSink
from pipeline.stages.execute import ExecuteStage
from pipeline.stages.language_model import LMStage
from pipeline.stages.read import ReadStage
from pipeline.units import Unit

_UNITS_PER_WAVE = 2_000  # bounds what the driver holds; engines live through all waves


def run_graph(
    units: Sequence[Unit], config: RunConfig, method: Method, pools: Pools, run_path: Path
) -> None:
    """Annotate `units` and commit each to `run_path`; returns when all are committed."""
    configure_ray_data()
    for start in range(0, len(units), _UNITS_PER_WAVE):
        wave = units[start : start + _UNITS_PER_WAVE]
        graph(wave, config, method, pools).write_datasink(
            UnitSink(run_path, wave), ray_remote_args={"num_cpus": STAGE_CPUS}
        )


def graph(units: Sequence[Unit], config: RunConfig, method: Method, pools: Pools) -> Dataset:
    """read -> sample -> execute -> score, one block per unit."""
    model = (config.model.path, config.model.revision)
    sampling, scoring = config.pool_of("sample"), config.pool_of("loss")
    units_of_work = ray.data.from_items(
        [asdict(unit) for unit in units], override_num_blocks=len(units)
    )
    documents = _stage(units_of_work, sampling, ReadStage, *model, method)
    sampled = _stage(documents, sampling, LMStage, "sample", pools.replicas_of("sample"), method)
    # One actor asks the tools: of two, one would count the other's batch into its timeouts.
    executed = _stage(
        sampled, scoring, ExecuteStage, pools.tools, *model, method.max_result_tokens, size=1
    )
    return _stage(executed, scoring, LMStage, "score", pools.replicas_of("loss"), method)


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
