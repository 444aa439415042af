"""A run by the command line with vLLM for all kinds of work says what one with torch says."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.engines.load import installed_vllm
from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import demo_config, pipeline

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(installed_vllm() is None, reason="vLLM is not installed"),
]


def calls_of(run: Path) -> list[dict[str, Any]]:
    return [
        call
        for path in RunDir(run).finished_unit_files()
        for row in pq.read_table(path).to_pylist()
        for call in row["calls"]
    ]


def test_greedy_calls_and_losses_are_those_of_torch(tmp_path: Path, ray_directory: Path) -> None:
    calls = {}
    for engine in ("vllm", "torch"):
        config = demo_config(tmp_path, 8, engine=engine, sampling={"temperature": 0.0})
        settings = yaml.safe_load(config.read_text())
        settings["tools"] = {"Calculator": settings["tools"]["Calculator"] | {"m": 1}}
        config.write_text(yaml.safe_dump(settings))
        run = tmp_path / engine
        pipeline("annotate", config, "--run", run, "--no-dashboard", ray_directory=ray_directory)
        assert RunDir(run).record().fingerprint_of["engine.name"] == engine
        calls[engine] = calls_of(run)
    assert any(call["gain"] is not None for call in calls["torch"])
    for ours, theirs in zip(calls["vllm"], calls["torch"], strict=True):
        for name in ("tool", "position", "input", "result"):
            assert ours[name] == theirs[name]
        for name in ("p_api", "loss_empty", "loss_plus", "loss_call", "gain"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-3)
