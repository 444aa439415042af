"""GPU-hours of the paper's configurations, worked out by hand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pipeline.config import load_config
from tests.pipeline.demo_runs import ROOT
from tools.base import InputError
from training.cli import app
from training.evaluate.config import load_evaluate_config
from training.finetune.config import load_finetune_config
from training.gpu_hours import (
    ESTIMATED,
    Rates,
    StageHours,
    annotation_hours,
    evaluation_hours,
    finetuning_hours,
    hours_table,
    missing_benchmarks,
    read_rates,
)

RATES = Rates(
    source="a slow GPU",
    parameters=1_000_000_000,
    documents_per_s={"QA": 2.0, "Calculator": 0.5},
    flops_per_s=1e12,
    decode_bytes_per_s=1e11,
)


def by_stage(hours: list[StageHours]) -> dict[str, float]:
    return {each.stage: each.gpu_hours for each in hours}


def test_annotation_goes_with_documents_their_tokens_and_the_samples_of_a_tool() -> None:
    config = load_config(ROOT / "pipeline/configs/paper.yaml")
    told = annotation_hours(config, RATES, documents=7200, document_tokens=1000)
    hours = by_stage(told)
    assert hours["annotate: QA"] == pytest.approx(7200 * 2 / 2.0 / 3600)
    assert hours["annotate: Calculator"] == pytest.approx(7200 * 2 / 0.5 / 3600)  # k 20, m 10
    assert len(hours) == 5
    more = config.tools["QA"].model_copy(update={"k": 40, "m": 10})
    config.tools["QA"] = more  # twice the samples of the larger of the measured sizes
    told = annotation_hours(config, RATES, documents=7200, document_tokens=1000)
    assert by_stage(told)["annotate: QA"] == pytest.approx(2 * 7200 * 2 / 0.5 / 3600)


def test_finetuning_has_four_forward_passes_of_work_with_checkpointing() -> None:
    config = load_finetune_config(ROOT / "training/configs/finetune-paper.yaml")
    tokens = 2000 * 128 * 1024
    hours = by_stage(finetuning_hours(config, RATES))
    expected = tokens * 8 * 1e9 / 1e12 / 3600
    assert hours == pytest.approx({"finetune on C*": expected, "finetune on C": expected})
    without = config.model_copy(update={"gradient_checkpointing": False})
    assert by_stage(finetuning_hours(without, RATES))["finetune on C"] == pytest.approx(
        expected * 3 / 4
    )


def test_a_model_with_calls_is_asked_for_each_k() -> None:
    config = load_evaluate_config(ROOT / "training/configs/evaluate-paper.yaml")
    hours = by_stage(evaluation_hours(config, RATES))
    assert list(hours) == [
        f"evaluate: {name}"
        for name in ("GPT-J", "GPT-J + CC", "Toolformer (disabled)", "Toolformer")
    ]
    # Dateset alone, which needs no file: 9,400 queries, 24 new tokens each.
    new_tokens_s = 9400 * 24 * 2e9 / 1e11 / 64
    assert hours["evaluate: GPT-J"] * 3600 > new_tokens_s
    assert hours["evaluate: Toolformer"] == pytest.approx(4 * hours["evaluate: GPT-J"])
    assert missing_benchmarks(config)[:2] == ["lama_squad", "lama_google_re"]
    table = hours_table(evaluation_hours(config, RATES), RATES, uncounted=["lama_squad"])
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    text = console.export_text()
    assert "9,400 texts" in text and "37,600 texts" in text
    assert "THE STUDY TAKES MORE" in str(table.caption)
    assert str(table.caption).endswith("as their files are not here, are lama_squad")
    assert "TAKES MORE" not in str(hours_table([], RATES).caption)


MEASURED: dict[str, Any] = {
    "tools_measured": [
        {"tool": "QA", "documents_per_s": 3.0},
        {"tool": "Calculator", "documents_per_s": 1.0},
    ],
    "device_name": "A100",
    "shape": "gpt-j-6b",
    "parameters": 6,
    "prefill_flops_per_s": 5.0,
    "decode_bandwidth_share": 0.5,
    "copy_bandwidth_bytes_per_s": 8.0,
}


def test_rates_are_those_the_benchmark_wrote(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(MEASURED))
    rates = read_rates(path)
    assert (rates.parameters, rates.flops_per_s, rates.decode_bytes_per_s) == (6, 5.0, 4.0)
    assert rates.documents_per_s == {"QA": 3.0, "Calculator": 1.0}
    assert rates.source == "measured on A100, gpt-j-6b"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (json.dumps(MEASURED | {"tools_measured": []}), "measured on A100, expected a GPU"),
        (
            json.dumps(MEASURED | {"tools_measured": MEASURED["tools_measured"][:1]}),
            "not what `python -m pipeline bench --json` writes",
        ),
        ("{}", "not what `python -m pipeline bench --json` writes"),
        ("torn", "not what `python -m pipeline bench --json` writes"),
        (None, "cannot read: No such file"),
    ],
)
def test_what_is_no_measurement_is_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "bench.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=says):
        read_rates(path)


def test_the_command_tells_estimates_as_such() -> None:
    result = CliRunner().invoke(app, ["gpu-hours", "--documents", "1000"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert ESTIMATED.source in " ".join(result.output.split())
    assert "22.6" in result.output  # 262 M tokens * 8 * 6.05 GFLOP at 156 TFLOP/s
