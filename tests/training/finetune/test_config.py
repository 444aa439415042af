"""What a finetuning configuration may say."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tools.base import ConfigError
from training.finetune.config import FinetuneConfig, load_finetune_config
from training.finetune.deepspeed_config import deepspeed_config


def config(**changes: Any) -> FinetuneConfig:
    needed = {"run": "runs/demo", "out": "out", "development": {"input": "held_out"}}
    return FinetuneConfig.model_validate(needed | changes)


def test_defaults_are_those_of_the_paper() -> None:
    paper = config()
    assert (paper.batch_size, paper.learning_rate, paper.warmup_share) == (128, 1e-5, 0.1)
    assert (paper.sequence_tokens, paper.max_steps, paper.eval_steps) == (1024, 2000, 500)
    assert (paper.max_examples, paper.development.documents) == (25_000, 1000)
    assert (paper.zero.stage, paper.precision) == (3, "bfloat16")


@pytest.mark.parametrize("num_processes", [1, 2, 4, 8, 16])
def test_batch_is_the_same_for_any_number_of_processes(num_processes: int) -> None:
    assert config().accumulation_steps(num_processes) * num_processes * 8 == 128


def test_batch_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ConfigError, match="no multiple of 3 processes x micro_batch_size 8"):
        config().accumulation_steps(3)
    with pytest.raises(ValidationError, match="batch_size 128 is no multiple"):
        config(micro_batch_size=24)


def test_unknown_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("run: a\nout: b\ndevelopment: {input: c}\nlearning_rat: 1\n")
    with pytest.raises(ConfigError, match="learning_rat: Extra inputs"):
        load_finetune_config(path)


def test_offload_uses_the_optimiser_of_deepspeed_for_cpus() -> None:
    on_gpu = deepspeed_config(config())
    assert "optimizer" not in on_gpu and on_gpu["zero_optimization"]["stage"] == 3
    both = deepspeed_config(
        config(zero={"stage": 3, "offload_optimizer": True, "offload_parameters": True})
    )
    assert both["optimizer"]["type"] == "AdamW"
    assert both["zero_optimization"]["offload_param"]["device"] == "cpu"
    with pytest.raises(ValidationError, match="offload_parameters needs stage 3"):
        config(zero={"stage": 2, "offload_parameters": True})
