"""A second round of the demo: annotate, learn a little from C*, annotate with that, compare."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from pipeline.engines.checkpoint import load_model
from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import DEMO, ROOT, demo_config, pipeline_here

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

NUM_DOCUMENTS = 8
PROMPTS = ROOT / "pipeline" / "configs" / "demo_prompts"
TOOLS = ("Calculator", "Calendar")  # without processes of their own


def finetuned(run: Path, out: Path) -> list[float]:
    """Losses of a few steps on the run's C*, whose last weights are in `out`."""
    model = load_model(str(DEMO / "model"), None, "float32").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    [dataset] = (run / "dataset").glob("*.parquet")
    documents = pq.read_table(dataset).column("input_ids").to_pylist()
    losses = []
    for _ in range(3):
        loss = sum(
            model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids])).loss
            for ids in documents
        ) / len(documents)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    model.save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO / "model" / name, out)
    return losses


def kept(run: Path, tool: str, tau_f: float) -> set[tuple[str, int, str]]:
    """Document, token and input of the tool's calls with a gain of at least `tau_f`."""
    return {
        (row["doc_id"], call["position"], call["input"])
        for path in RunDir(run).finished_unit_files()
        for row in pq.read_table(path, columns=["doc_id", "calls"]).to_pylist()
        for call in row["calls"]
        if call["tool"] == tool and call["gain"] is not None and call["gain"] >= tau_f
    }


def test_a_second_round_is_annotated_by_the_finetuned_model_and_compared(tmp_path: Path) -> None:
    tools = {name: {"prompt": f"{PROMPTS}/{name}.txt", "tau_f": 0.5} for name in TOOLS}
    config = demo_config(tmp_path, NUM_DOCUMENTS, tools=tools)
    first, second, model = tmp_path / "first", tmp_path / "second", tmp_path / "model"
    pipeline_here("annotate", config, "--run", first)
    pipeline_here("build", first)
    losses = finetuned(first, model)
    assert losses[-1] < losses[0]

    annotated = pipeline_here("annotate", config, "--run", second, "--model", model)
    assert f"{NUM_DOCUMENTS} documents in 2 units" in annotated.stdout
    records = [RunDir(run).record() for run in (first, second)]
    assert records[1].config.model.path == str(model)
    assert records[1].config.model.dtype == records[0].config.model.dtype
    assert [key for key, value in records[1].fingerprint_of.items()
            if value != records[0].fingerprint_of[key]] == ["engine.weights_id"]  # fmt: skip

    refused = pipeline_here("annotate", config, "--run", second, check=False)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert f"(model: {model} -> {DEMO / 'model'}; engine.weights_id:" in refused.stderr

    shown = pipeline_here("report", second, "--previous", first).stdout
    assert f"round 1: {first}, model {DEMO / 'model'}\nround 2: {second}, model {model}\n" in shown
    rounds = json.loads((second / "report" / "stats.json").read_text())["rounds"]
    assert [r["documents"] for r in rounds] == [NUM_DOCUMENTS] * 2
    assert (rounds[1]["texts"]["new"], rounds[1]["texts"]["lost"]) == (0, 0)
    for name, tool in records[0].config.tools.items():
        one, two = (kept(run, name, tool.tau_f) for run in (first, second))
        assert [r["tools"][name]["kept"] for r in rounds] == [len(one), len(two)]
        assert rounds[1]["tools"][name]["calls"] == {
            "same": len(one & two), "new": len(two - one), "lost": len(one - two),
        }  # fmt: skip
    assert sum(tool["kept"] for tool in rounds[1]["tools"].values()) > 0
