from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.engine_config import Kind
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.vllm_capabilities import vllm_version
from pipeline.fingerprint import changes, digest, fingerprint_of, package_versions
from tests.pipeline.letters import letter_method

BASE: dict[str, Any] = {
    "run": "runs/a",
    "input": "docs",
    "model": {"path": "m"},
    "tools": {"Calculator": {"tau_f": 1.0}},
    "engine": "torch",
}
ENGINE = EngineInfo("torch", "1", "cpu", "float32", 1024, 1000, "weights-1")
VLLM = ENGINE._replace(name="vllm")


def fingerprint(
    info: EngineInfo = ENGINE,
    loss: EngineInfo | None = None,
    version: str = "1",
    stamp: str = "s",
    **config: Any,
) -> dict[str, Any]:
    settings = RunConfig.model_validate(BASE | config)
    infos: dict[Kind, EngineInfo] = {"position": info, "sample": info, "loss": loss or info}
    return fingerprint_of(settings, letter_method(), infos, {"Calculator": version}, stamp)


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The keys that differ."""
    return [line.split(":")[0] for line in changes(fingerprint(**before), fingerprint(**after))]


def test_what_changes_no_byte_of_a_unit_changes_no_fingerprint() -> None:
    free: list[dict[str, Any]] = [
        {"run": "elsewhere"},
        {"input": "moved/docs"},
        {"model": {"path": "moved/m"}},
        {"engine": {"name": "torch", "replicas": 8, "num_gpus": 1}},
        {"engine": {"name": "torch", "gpu_memory_utilization": 0.5, "max_num_seqs": 8}},
        {"engines": {"loss": "torch", "position": {"name": "torch"}}},  # one pool all the same
        {"tools": {"Calculator": {"tau_f": 2.0, "actors": 3, "max_examples": 5}}},
        {"tools": {"Calculator": {"tau_f": 1.0, "batch_size": 7, "retries": 0, "timeout_s": 9}}},
        {"tools": {"Calculator": {"tau_f": 1.0, "actors": 1, "num_gpus": 0.5, "num_cpus": 2}}},
        {"tool_cache": "elsewhere"},
    ]
    for change in free:
        assert digest(fingerprint(**change)) == digest(fingerprint()), change


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"seed": 1}, "seed"),
        ({"unit_documents": 7}, "unit_documents"),
        ({"engine": {"name": "torch", "token_budget": 512}}, "engine.token_budget"),
        ({"engine": {"name": "torch", "kept_tokens": 0}}, "engine.kept_tokens"),
        ({"engine": {"name": "torch", "num_threads": 2}}, "engine.num_threads"),
        ({"sampling": {"temperature": 0.5}}, "sampling.temperature"),
        ({"tools": {"Calculator": {"k": 3}}}, "tools.Calculator.k"),
        ({"report_tau_f": [0.25]}, "smallest tau_f"),
        ({"info": ENGINE._replace(weights_id="weights-2")}, "engine.weights_id"),
        ({"version": "2"}, "tools.Calculator.version"),
        ({"stamp": "other input"}, "input"),
    ],
)
def test_what_changes_bytes_is_named_by_its_key(change: dict[str, Any], key: str) -> None:
    assert changed({}, change) == [key]


def test_the_threads_beside_a_gpu_change_nothing() -> None:
    gpu: dict[str, Any] = {"info": ENGINE._replace(device="cuda")}
    assert changed({}, gpu) == ["engine.device", "engine.num_threads"]
    assert changed(gpu, gpu | {"engine": {"name": "torch", "num_threads": 2}}) == []


def test_a_new_tool_is_a_change() -> None:
    both: dict[str, Any] = {"tools": {"Calculator": {"tau_f": 1.0}, "Calendar": {}}}
    assert any(
        line.startswith("tools.Calendar.k") for line in changes(fingerprint(), fingerprint(**both))
    )


def test_another_engine_is_a_change() -> None:
    vllm = {"engine": "vllm", "info": VLLM}
    assert "engine.name" in changed({}, vllm)


def test_of_vllm_what_splits_the_model_counts_and_what_torch_keeps_does_not() -> None:
    def vllm(**settings: Any) -> dict[str, Any]:
        return {"engine": {"name": "vllm", **settings}, "info": VLLM}

    assert changed(vllm(), vllm(kept_tokens=1, max_num_seqs=8, gpu_memory_utilization=0.5)) == []
    assert changed(vllm(), vllm(tensor_parallel_size=2)) == ["engine.tensor_parallel_size"]
    assert changed(vllm(), vllm(token_budget=512)) == ["engine.token_budget"]


def test_separate_pools_are_named_by_kind() -> None:
    split = {"engines": {"loss": "vllm"}, "loss": VLLM}
    keys = changed({}, split)
    assert "engine.weights_id" in keys  # gone
    for kind in ("position", "sample", "loss"):
        assert {f"engines.{kind}.name", f"engines.{kind}.weights_id"} <= set(keys)
    newer = split | {"loss": VLLM._replace(version="2")}
    assert changed(split, newer) == ["engines.loss.version"]


def test_what_is_kept_of_p_counts_only_where_p_and_s_are_one_pool() -> None:
    def apart(kept_tokens: int, **engines: Any) -> dict[str, Any]:
        engine = {"name": "torch", "replicas": 2, "kept_tokens": kept_tokens}
        return {"engine": engine, "engines": engines}

    assert changed(apart(1, sample="torch"), apart(2, sample="torch")) == []
    assert changed(apart(1, loss="torch"), apart(2, loss="torch")) == [
        "engines.position.kept_tokens",
        "engines.sample.kept_tokens",
    ]


@pytest.mark.parametrize("variable", ["VLLM_BATCH_INVARIANT", "VLLM_USE_V2_MODEL_RUNNER"])
def test_what_vllm_takes_from_the_environment_counts_for_its_pools(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    mixed: dict[str, Any] = {"engines": {"loss": "vllm"}, "loss": VLLM}
    monkeypatch.delenv(variable, raising=False)
    torch, split = fingerprint(), fingerprint(**mixed)
    monkeypatch.setenv(variable, "1")
    assert fingerprint() == torch
    assert changes(split, fingerprint(**mixed)) == [f"engines.loss.{variable}: None -> '1'"]
    whole = fingerprint(engine="vllm", info=VLLM)
    assert whole[f"engine.{variable}"] == "1"


def test_the_versions_of_all_engines_are_recorded() -> None:
    versions = package_versions()
    assert {"torch", "transformers", "ray"} <= versions.keys()
    assert versions.get("vllm") == vllm_version()
