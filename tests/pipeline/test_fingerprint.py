from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.engines.protocol import EngineInfo
from pipeline.fingerprint import changes, digest, fingerprint_of
from tests.pipeline.letters import letter_method

BASE: dict[str, Any] = {
    "run": "runs/a",
    "input": "docs",
    "model": {"path": "m"},
    "tools": {"Calculator": {"tau_f": 1.0}},
}
ENGINE = EngineInfo("torch", "1", "cpu", "float32", 1024, 1000, "weights-1")


def fingerprint(
    info: EngineInfo = ENGINE, version: str = "1", stamp: str = "s", **config: Any
) -> dict[str, Any]:
    settings = RunConfig.model_validate(BASE | config)
    return fingerprint_of(settings, letter_method(), info, {"Calculator": version}, stamp)


def test_what_changes_no_byte_of_a_unit_changes_no_fingerprint() -> None:
    free: list[dict[str, Any]] = [
        {"run": "elsewhere"},
        {"input": "moved/docs"},
        {"model": {"path": "moved/m"}},
        {"engine": {"replicas": 8, "num_gpus": 1, "num_threads": 4}},
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
        ({"engine": {"token_budget": 512}}, "engine.token_budget"),
        ({"sampling": {"temperature": 0.5}}, "sampling.temperature"),
        ({"tools": {"Calculator": {"k": 3}}}, "tools.Calculator.k"),
        ({"report_tau_f": [0.25]}, "smallest tau_f"),
        ({"info": ENGINE._replace(weights_id="weights-2")}, "engine.weights_id"),
        ({"info": ENGINE._replace(device="cuda")}, "engine.device"),
        ({"version": "2"}, "tools.Calculator.version"),
        ({"stamp": "other input"}, "input"),
    ],
)
def test_what_changes_bytes_is_named_by_its_key(change: dict[str, Any], key: str) -> None:
    lines = changes(fingerprint(), fingerprint(**change))
    assert [line.split(":")[0] for line in lines] == [key]


def test_a_new_tool_is_a_change() -> None:
    both: dict[str, Any] = {"tools": {"Calculator": {"tau_f": 1.0}, "Calendar": {}}}
    assert any(
        line.startswith("tools.Calendar.k") for line in changes(fingerprint(), fingerprint(**both))
    )
