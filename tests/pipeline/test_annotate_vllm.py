"""A run by the command line with vLLM for all kinds of work says what torch says."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.config import load_config
from pipeline.engines.load import installed_vllm
from pipeline.engines.torch_engine import TorchEngine
from pipeline.execution import record_results
from pipeline.method import resolve_method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.rundir import RunDir
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO, demo_config, pipeline_here
from tools.base import ToolRequest, ToolResult, ToolStatus

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.skipif(installed_vllm() is None, reason="vLLM is not installed"),
]

NUM_DOCUMENTS = 8  # of which two are offered to the calculator


def test_greedy_calls_and_losses_are_those_of_torch(tmp_path: Path) -> None:
    path = demo_config(tmp_path, NUM_DOCUMENTS, engine="vllm", sampling={"temperature": 0.0})
    settings = yaml.safe_load(path.read_text())
    settings["unit_documents"] = NUM_DOCUMENTS
    settings["tools"] = {"Calculator": settings["tools"]["Calculator"] | {"m": 1}}
    path.write_text(yaml.safe_dump(settings))
    run = RunDir(tmp_path / "run")
    pipeline_here("annotate", path, "--run", run.path)
    assert run.record().fingerprint_of["engine.name"] == "vllm"
    [unit_file] = run.finished_unit_files()
    ours = pq.read_table(unit_file).to_pylist()

    # The same with torch in this process, where only the results of the tool are the run's.
    codec, engine = TokenCodec.load(str(DEMO / "model")), TorchEngine.load(str(DEMO / "model"))
    method = resolve_method(load_config(path), codec, context=engine.info.max_len)
    unit = prepare(read_rows(tmp_path / "documents.parquet", 0, NUM_DOCUMENTS), "u", method, codec)
    sampled = sample_calls(unit, method, codec, engine)
    results = {
        ToolRequest(input=call["input"], date=row["date"]): ToolResult(
            status=ToolStatus(call["status"]), result=call["result"], error=call["error"]
        )
        for row in ours
        for call in row["calls"]
        if call["status"]
    }
    answered = record_results(
        sampled, {"Calculator": results}, codec, max_result_tokens=method.max_result_tokens
    )
    theirs = score_calls(answered, method, codec, engine).to_pylist()
    assert any(call["gain"] is not None for row in theirs for call in row["calls"])
    for our, their in zip(ours, theirs, strict=True):
        for found, expected in zip(our["calls"], their["calls"], strict=True):
            for name in ("tool", "position", "input", "result"):
                assert found[name] == expected[name]
            for name in ("p_api", "loss_empty", "loss_plus", "loss_call", "gain"):
                assert found[name] == pytest.approx(expected[name], abs=1e-3)
