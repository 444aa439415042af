"""VLLMEngine in a Ray actor, as a run has it: the demo model annotates demo documents."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest

from pipeline.config import load_config
from pipeline.engine_config import KINDS, EngineConfig, PoolPlan
from pipeline.engines.torch_engine import TorchEngine
from pipeline.execution import distinct_requests, record_results
from pipeline.method import resolve_method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO, demo_config
from tools.base import ToolResult

pytest.importorskip("vllm", reason="vllm is not installed")

MODEL = str(DEMO / "model")


def engine_processes() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if "EngineCore" in p.name()]


@pytest.mark.ray
def test_units_are_annotated_at_once_in_an_actor(local_ray: None, tmp_path: Path) -> None:
    import ray

    from pipeline.engines.actor import LMActor

    config = load_config(demo_config(tmp_path, 4))
    codec = TokenCodec.load(MODEL)
    torch_engine = TorchEngine.load(MODEL)
    method = resolve_method(config, codec, context=torch_engine.info.max_len)
    units = [
        prepare(read_rows(tmp_path / "documents.parquet", start, 2), f"u{start}", method, codec)
        for start in (0, 2)
    ]
    pool = PoolPlan(kinds=KINDS, engine=EngineConfig(name="vllm", token_budget=1024))
    actor: Any = LMActor.remote(config.model, pool)
    assert ray.get(actor.info.remote()).name == "vllm"

    all_sampled = ray.get([actor.sample_unit.remote(unit, method) for unit in units])
    answered = []
    for unit, sampled in zip(units, all_sampled, strict=True):
        assert_same_positions(sampled, sample_calls(unit, method, codec, torch_engine))
        calls = [call for row in sampled.to_pylist() for call in row["calls"]]
        assert calls and {call["tool"] for call in calls} <= set(config.tools)
        results = {
            tool: {request: ToolResult.ok("29 May") for request in asked}
            for tool, asked in distinct_requests(sampled).items()
        }
        answered.append(
            record_results(sampled, results, codec, max_result_tokens=method.max_result_tokens)
        )
    # The first unit's samples again beside the losses of both: sampling with the same seeds.
    *all_scored, again = ray.get(
        [
            *(actor.score_unit.remote(unit, method) for unit in answered),
            actor.sample_unit.remote(units[0], method),
        ]
    )
    for unit, scored in zip(answered, all_scored, strict=True):
        assert_same_losses(scored, score_calls(unit, method, codec, torch_engine))
    assert_same_positions(again, all_sampled[0])

    running = engine_processes()
    assert running
    ray.kill(actor)
    deadline = time.monotonic() + 60
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in running):
        assert time.monotonic() < deadline, "vLLM's processes outlive their actor"
        time.sleep(0.1)


def assert_same_positions(ours: pa.Table, theirs: pa.Table) -> None:
    for our, their in zip(ours.to_pylist(), theirs.to_pylist(), strict=True):
        assert our["dropped"] is None
        assert [by_place(p) for p in our["positions"]] == [by_place(p) for p in their["positions"]]
        for name in ("p_api", "loss_empty"):
            found, expected = ([p[name] for p in row["positions"]] for row in (our, their))
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def by_place(position: dict[str, Any]) -> tuple[Any, ...]:
    return position["tool"], position["byte_offset"]


def assert_same_losses(ours: pa.Table, theirs: pa.Table) -> None:
    num_gains = 0
    for our, their in zip(ours.to_pylist(), theirs.to_pylist(), strict=True):
        for found, expected in zip(our["calls"], their["calls"], strict=True):
            for name in ("loss_empty", "loss_plus", "loss_call", "gain"):
                assert (found[name] is None) == (expected[name] is None)
                if found[name] is not None:
                    assert found[name] == pytest.approx(expected[name], abs=1e-3)
            num_gains += found["gain"] is not None
    assert num_gains
