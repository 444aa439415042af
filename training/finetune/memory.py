"""What ZeRO needs for a model's states, by DeepSpeed's own estimators, as a table.

States are parameters, gradients and the optimiser's. Activations come on top: they depend on the
micro-batch, the length of a sequence and gradient checkpointing, and DeepSpeed estimates none.
"""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from pipeline.engines.checkpoint import check_location
from tools.base import ConfigError, one_line
from training.finetune.config import ZeroConfig

# A shape that needs no download: GPTJConfig's defaults are those of EleutherAI/gpt-j-6b.
GPT_J_6B = "gpt-j-6b"

SETTINGS = (
    ZeroConfig(stage=2),
    ZeroConfig(stage=2, offload_optimizer=True),
    ZeroConfig(stage=3),
    ZeroConfig(stage=3, offload_optimizer=True),
    ZeroConfig(stage=3, offload_optimizer=True, offload_parameters=True),
)
HARDWARE = ((1, 1), (1, 4), (1, 8), (2, 8), (4, 8))  # nodes, GPUs of each

_GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """How many a model has, and the largest of its layers, which stage 3 gathers whole."""

    total: int
    largest_layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Bytes for the states of a model."""

    gpu: int  # of each
    host: int  # of each node


def count_parameters(model: str) -> Parameters:
    """Of a model directory, a name on the Hub, or `gpt-j-6b`; no weights are read.

    Raises:
        ConfigError: there is no such model, or it is no causal language model.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GPTJConfig

    try:
        if model == GPT_J_6B:
            config = GPTJConfig()
        else:
            check_location(model)
            config = AutoConfig.from_pretrained(model)
        with torch.device("meta"):
            built: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{model}: no causal language model: {one_line(error)}") from None
    layers = (sum(p.numel() for p in m.parameters(recurse=False)) for m in built.modules())
    return Parameters(total=built.num_parameters(), largest_layer=max(layers))


def needs(parameters: Parameters, zero: ZeroConfig, *, nodes: int, gpus_per_node: int) -> Needs:
    """What DeepSpeed estimates for AdamW in mixed precision under stage 2 or 3 of ZeRO."""
    # DeepSpeed says on standard output that there is no GPU here.
    with contextlib.redirect_stdout(io.StringIO()):
        from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
        from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs
    hardware = {"num_gpus_per_node": gpus_per_node, "num_nodes": nodes}
    if zero.stage == 3:
        host, gpu, _ = estimate_zero3_model_states_mem_needs(
            parameters.total,
            parameters.largest_layer,
            cpu_offload=zero.offload_optimizer,
            cpu_offload_params=zero.offload_parameters,
            **hardware,
        )
    else:
        host, gpu = estimate_zero2_model_states_mem_needs(
            parameters.total, cpu_offload=zero.offload_optimizer, **hardware
        )
    return Needs(gpu=gpu, host=host)


def memory_table(
    model: str,
    parameters: Parameters,
    *,
    gpu_gib: float,
    hardware: Sequence[tuple[int, int]] = HARDWARE,
) -> Table:
    """GiB of each GPU and of each host, for every way to divide and offload the states.

    What does not fit GPUs of `gpu_gib` stands in parentheses.
    """
    table = Table(
        title=f"{model}: {parameters.total:,} parameters, "
        f"{parameters.largest_layer:,} in the largest layer",
        title_justify="left",
        caption=f"GiB of a GPU / of a host, for parameters, gradients and the optimiser's states; "
        f"(...) is more than the {gpu_gib:g} GiB of a GPU",
        caption_justify="left",
    )
    table.add_column("zero", no_wrap=True)
    for nodes, gpus in hardware:
        machine = f"{gpus} GPU{'s' if gpus > 1 else ''}"
        table.add_column(machine if nodes == 1 else f"{nodes} x {machine}", justify="right")
    for zero in SETTINGS:
        cells = [needs(parameters, zero, nodes=n, gpus_per_node=gpus) for n, gpus in hardware]
        table.add_row(_name(zero), *(_cell(cell, gpu_gib) for cell in cells))
    return table


def _name(zero: ZeroConfig) -> str:
    offloaded = [
        name
        for name, is_off in (
            ("optimizer", zero.offload_optimizer), ("parameters", zero.offload_parameters)
        )
        if is_off
    ]  # fmt: skip
    return f"stage {zero.stage}" + (f", offload {' and '.join(offloaded)}" if offloaded else "")


def _cell(cell: Needs, gpu_gib: float) -> str:
    gpu = f"{cell.gpu / _GIB:.1f}"
    return f"{gpu if cell.gpu <= gpu_gib * _GIB else f'({gpu})'} / {cell.host / _GIB:.1f}"
