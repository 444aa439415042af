"""Where a replica runs: on a GPU, on none, or on several GPUs of one node that it shares M over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from pipeline.engine_config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """`actor` are Ray's options of the replica; `group` holds its GPUs where it has several."""

    actor: dict[str, Any]
    group: PlacementGroup | None = None


def placed(engine: EngineConfig) -> Placement:
    """Where one replica is to run.

    Of a model that is split over GPUs the replica has none itself: vLLM starts one worker for
    each, as Ray actors in the group of the replica. They are on one node, as they exchange every
    layer's activations.
    """
    if engine.tensor_parallel_size == 1:
        return Placement(actor={"num_gpus": engine.gpus})
    bundles = [{"GPU": 1.0}] * engine.tensor_parallel_size
    group = placement_group(bundles, strategy="STRICT_PACK")
    strategy = PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_capture_child_tasks=True
    )
    return Placement(actor={"num_gpus": 0, "scheduling_strategy": strategy}, group=group)


def release(groups: Sequence[PlacementGroup]) -> None:
    """Give back what the groups hold, and end what runs in them."""
    for group in groups:
        remove_placement_group(group)
