"""The witness that the fast path changes nothing: the same calls and C* as a naive engine's."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.build.dataset import build
from pipeline.config import RunConfig
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import LMEngine
from pipeline.execution import distinct_requests, record_results
from pipeline.method import resolve_method
from pipeline.pools import access_to
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.sampling import sample_calls
from pipeline.schemas import SCORED
from pipeline.scoring import score_calls
from pipeline.stages.tool_access import ToolClient
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO, ROOT
from tests.pipeline.naive_engine import NaiveEngine

NUM_DOCUMENTS = 48
MODEL = str(DEMO / "model")
IDENTITY = ("doc_id", "tool", "position", "byte_offset", "input", "samples", "result")
NUMBERS = ("p_api", "loss_empty", "loss_call", "loss_plus", "gain")


def config(*, exact_reductions: bool) -> RunConfig:
    prompts = ROOT / "pipeline" / "configs" / "demo_prompts"
    return RunConfig.model_validate(
        {
            "run": "unused",
            "input": str(DEMO / "documents.parquet"),
            "model": {"path": MODEL},
            "engine": {"token_budget": 1024},
            "tools": {
                "Calculator": {"prompt": str(prompts / "Calculator.txt"), "k": 5, "m": 5},
                "Calendar": {"prompt": str(prompts / "Calendar.txt"), "tau_f": 0.5},
            },
            "sampling": {"max_new_tokens": 28},
            "exact_reductions": exact_reductions,
        }
    )


def annotated(settings: RunConfig, engine: LMEngine) -> pa.Table:
    """The first demo documents with their scored calls."""
    codec = TokenCodec.load(MODEL)
    method = resolve_method(settings, codec, context=engine.info.max_len)
    documents = read_rows(settings.input[0], 0, NUM_DOCUMENTS)
    unit = sample_calls(prepare(documents, "u", method, codec), method, codec, engine)
    results = {
        name: dict(zip(asked, asyncio.run(_client(name, settings).ask(asked)), strict=True))
        for name, asked in distinct_requests(unit).items()
    }
    unit = record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)
    return score_calls(unit, method, codec, engine)


def _client(name: str, settings: RunConfig) -> ToolClient:
    return ToolClient(access_to(name, settings))


def kept_calls(unit: pa.Table, settings: RunConfig) -> list[dict[str, Any]]:
    return [
        {"doc_id": row["doc_id"], **call}
        for row in unit.to_pylist()
        for call in row["calls"]
        if call["gain"] is not None and call["gain"] >= settings.tools[call["tool"]].tau_f
    ]


@pytest.fixture(scope="module")
def fast() -> pa.Table:
    settings = config(exact_reductions=True)
    return annotated(settings, load_engine(settings.model, settings.engine))


@pytest.fixture(scope="module")
def naive() -> pa.Table:
    return annotated(config(exact_reductions=False), NaiveEngine(MODEL))


def test_the_kept_calls_are_the_same_to_the_letter(fast: pa.Table, naive: pa.Table) -> None:
    settings = config(exact_reductions=True)
    ours, theirs = kept_calls(fast, settings), kept_calls(naive, settings)
    assert [[c[name] for name in IDENTITY] for c in ours] == [
        [c[name] for name in IDENTITY] for c in theirs
    ]
    assert {c["tool"] for c in ours} == {"Calculator", "Calendar"} and len(ours) >= 15
    for call, expected in zip(ours, theirs, strict=True):
        for name in NUMBERS:
            assert call[name] == pytest.approx(expected[name], abs=1e-4, rel=0)


def test_the_positions_are_the_same(fast: pa.Table, naive: pa.Table) -> None:
    for ours, theirs in zip(fast.to_pylist(), naive.to_pylist(), strict=True):
        for one, other in zip(ours["positions"], theirs["positions"], strict=True):
            assert (one["tool"], one["position"]) == (other["tool"], other["position"])
            for name in ("p_api", "loss_empty"):
                assert one[name] == pytest.approx(other[name], abs=1e-4, rel=0)


def test_the_reductions_had_something_to_skip(fast: pa.Table, naive: pa.Table) -> None:
    """Otherwise two equal runs would show nothing."""
    pruned = [p["pruned"] for row in fast.to_pylist() for p in row["positions"]]
    assert any(pruned) and not all(pruned)
    unscored = [
        call for row in fast.to_pylist() for call in row["calls"]
        if call["result"] is not None and call["loss_call"] is None
    ]  # fmt: skip
    assert unscored
    for row in naive.to_pylist():
        assert not any(p["pruned"] for p in row["positions"])
        assert all(c["gain"] is not None for c in row["calls"] if c["result"] is not None)


def test_the_dataset_built_from_both_has_the_same_text(
    fast: pa.Table, naive: pa.Table, tmp_path: Path
) -> None:
    texts = []
    for name, unit in (("fast", fast), ("naive", naive)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(unit.select(SCORED.names), path)
        settings = config(exact_reductions=True)
        build([path], settings, TokenCodec.load(MODEL), tmp_path / name)
        shards = sorted((tmp_path / name / "dataset").glob("*.parquet"))
        columns = ["doc_id", "text", "input_ids"]
        texts.append(pa.concat_tables([pq.read_table(s, columns=columns) for s in shards]))
    assert texts[0].num_rows >= 10
    assert texts[0].equals(texts[1])
