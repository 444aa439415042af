"""What ZeRO needs, against DeepSpeed's formulas worked out by hand."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.pipeline.demo_runs import ROOT
from tools.base import ConfigError
from training.finetune.config import ZeroConfig
from training.finetune.memory import (
    GPT_J_6B,
    Parameters,
    count_parameters,
    memory_table,
    needs,
)

B = 10**9
MODEL = Parameters(total=6 * B, largest_layer=B // 5)


def test_stage_3_divides_18_bytes_of_a_parameter_and_gathers_a_layer() -> None:
    # 18 = 2 + 2 for weights and gradients in 16 bit, 4 + 4 in 32 bit, 8 of AdamW
    there = needs(MODEL, ZeroConfig(stage=3), nodes=1, gpus_per_node=8)
    assert there.gpu == 18 * 6 * B // 8 + 4 * B // 5
    there = needs(MODEL, ZeroConfig(stage=3), nodes=2, gpus_per_node=8)
    assert there.gpu == 18 * 6 * B // 16 + 4 * B // 5


def test_offloaded_parameters_leave_one_layer_on_the_gpu() -> None:
    zero = ZeroConfig(stage=3, offload_optimizer=True, offload_parameters=True)
    there = needs(MODEL, zero, nodes=1, gpus_per_node=8)
    assert there.gpu == 4 * B // 5
    assert there.host == 18 * 6 * B * 3 // 2  # half as much again for buffers


def test_stage_2_keeps_all_parameters_on_each_gpu() -> None:
    zero = ZeroConfig(stage=2, offload_optimizer=True)
    assert needs(MODEL, zero, nodes=1, gpus_per_node=8).gpu == 2 * 6 * B


def test_parameters_are_counted_without_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "gptj", "vocab_size": 10, "n_embd": 8, "n_layer": 1, "n_head": 2, '
        '"rotary_dim": 4, "n_positions": 16, "architectures": ["GPTJForCausalLM"]}'
    )
    # embeddings 80; norms 2 x 16; attention 4 x 64; MLP 8 x 32 + 32 and 32 x 8 + 8; head 80 + 10
    counted = count_parameters(str(tmp_path))
    assert counted == Parameters(total=80 + 32 + 256 + 288 + 264 + 90, largest_layer=288)
    with pytest.raises(ConfigError, match="no such model directory"):
        count_parameters(str(tmp_path / "none"))


def test_the_table_of_the_readme_is_this_one() -> None:
    counted = count_parameters(GPT_J_6B)
    assert counted.total == 6_050_882_784
    said = io.StringIO()
    Console(file=said, width=200).print(memory_table(GPT_J_6B, counted, gpu_gib=40))
    rows = [re.findall(r"[^\u2502\n]+", line) for line in said.getvalue().splitlines()]
    table = [[cell.strip() for cell in row] for row in rows if row and "stage" in row[0]]
    readme = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
    for row in table:
        assert f"| {' | '.join(row)} |" in readme
