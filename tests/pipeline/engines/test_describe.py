from pathlib import Path

import pytest

from pipeline.config import RunConfig
from pipeline.engines.describe import describe_engines, engines_line, shortest_context
from pipeline.engines.load import installed_vllm


def configured(path: Path, **settings: object) -> RunConfig:
    base = {"run": "r", "input": "i", "model": {"path": str(path)}, "tools": {"Calculator": {}}}
    return RunConfig.model_validate(base | settings)


def test_the_user_reads_what_runs_in_one_line(checkpoints: dict[str, Path]) -> None:
    config = configured(checkpoints["gptj"], engine={"name": "torch", "replicas": 2})
    infos = describe_engines(config)
    version = infos["loss"].version
    said = f"engine: torch {version}, 2 replicas, float32 on cpu, packed"
    assert engines_line(config, infos) == said
    split = configured(
        checkpoints["gptj"], engine="torch", engines={"loss": {"name": "torch", "replicas": 2}}
    )
    assert engines_line(split, describe_engines(split)) == (
        f"engines: position+sample: torch {version}, 1 replica, float32 on cpu, packed; "
        f"loss: torch {version}, 2 replicas, float32 on cpu, packed"
    )
    slower = configured(checkpoints["gpt_neox"], engine="torch")
    assert engines_line(slower, describe_engines(slower)) == (
        f"engine: torch {version}, 1 replica, float32 on cpu, through transformers, which is "
        "slower: the model is of architecture gpt_neox, not of gptj, gpt2, llama, mistral, qwen2"
    )
    assert shortest_context(infos) == infos["loss"].max_len == 96


def test_every_kind_is_described_by_its_own_engine(checkpoints: dict[str, Path]) -> None:
    if installed_vllm() is None:
        pytest.skip("vLLM is not installed")
    split = configured(
        checkpoints["gptj"],
        engine={"name": "torch", "num_gpus": 1},
        engines={"sample": "vllm", "loss": "torch"},
    )
    infos = describe_engines(split)
    assert {kind: (info.name, info.device) for kind, info in infos.items()} == {
        "position": ("torch", "cuda"), "sample": ("vllm", "cpu"), "loss": ("torch", "cpu"),
    }  # fmt: skip
    assert infos["sample"].version == installed_vllm()
