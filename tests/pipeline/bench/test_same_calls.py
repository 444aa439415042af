"""The witness that the fast path changes nothing: the same calls and C* as a naive engine's."""

from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.config import RunConfig
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import LMEngine
from tests.pipeline.bench.in_process import annotated, built, clients_of, demo_config, kept_calls
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.naive_engine import NaiveEngine

# A fifth of the demo with two of its tools: what they show, the rest only shows longer.
NUM_DOCUMENTS = 48
TOOLS = ("Calculator", "Calendar")
IDENTITY = ("doc_id", "tool", "position", "byte_offset", "input", "samples", "result")
NUMBERS = ("p_api", "loss_empty", "loss_call", "loss_plus", "gain")


@pytest.fixture(scope="module")
def config() -> RunConfig:
    with chdir(ROOT):
        return demo_config(*TOOLS)


def run(config: RunConfig, engine: LMEngine) -> pa.Table:
    with chdir(ROOT):
        return annotated(config, engine, clients_of(config), NUM_DOCUMENTS)


@pytest.fixture(scope="module")
def fast(config: RunConfig) -> pa.Table:
    assert config.exact_reductions
    return run(config, load_engine(config.model, config.pool_of("sample").engine))


@pytest.fixture(scope="module")
def naive(config: RunConfig) -> pa.Table:
    without = config.model_copy(update={"exact_reductions": False})
    return run(without, NaiveEngine(config.model.path))


def test_the_kept_calls_are_the_same_to_the_letter(
    config: RunConfig, fast: pa.Table, naive: pa.Table
) -> None:
    ours, theirs = kept_calls(fast, config), kept_calls(naive, config)
    assert [[c[name] for name in IDENTITY] for c in ours] == [
        [c[name] for name in IDENTITY] for c in theirs
    ]
    assert {c["tool"] for c in ours} == set(TOOLS) and len(ours) >= 15
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
    config: RunConfig, fast: pa.Table, naive: pa.Table, tmp_path: Path
) -> None:
    with chdir(ROOT):
        ours = built(fast, config, tmp_path / "fast")
        theirs = built(naive, config, tmp_path / "naive")
    assert ours.num_rows >= 10
    assert ours.equals(theirs)
