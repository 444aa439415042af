"""The short reproduction, killed and continued: our own commands and a real model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
SHORT = ROOT / "training" / "configs" / "reproduce-short.yaml"
_PATIENCE_S = 600


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Where the results are, and the marks that were there when it was killed."""
    out = tmp_path_factory.mktemp("short")
    settings = yaml.safe_load(SHORT.read_text())
    config = out / "short.yaml"
    config.write_text(yaml.safe_dump(settings | {"out": str(out), "results": str(out / "results")}))
    command = [sys.executable, "-m", "training", "reproduce", str(config)]
    built, until = out / "_done" / "build-large.json", time.monotonic() + _PATIENCE_S
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as killed:
        while not built.exists() and killed.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        killed.send_signal(signal.SIGKILL)
    marks = {path.name: path.read_text() for path in (out / "_done").iterdir()}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=_PATIENCE_S,
        env=os.environ | {"COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(out / "results" / "reproduce.md")
    return out, marks


@pytest.mark.ray
def test_what_was_finished_when_it_was_killed_was_not_done_again(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    out, marks = finished
    assert "build-large.json" in marks
    assert "evaluate-large.json" not in marks
    for name, mark in marks.items():
        assert (out / "_done" / name).read_text() == mark
    assert len(list((out / "_done").iterdir())) == 9


@pytest.mark.ray
def test_the_tables_hold_what_the_steps_wrote(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    told = json.loads((out / "results" / "reproduce.json").read_bytes())
    markdown = (out / "results" / "reproduce.md").read_text()
    build = json.loads((out / "large" / "run" / "build.json").read_bytes())
    (size,) = told["sizes"]
    assert size["built"]["examples_at"] == {
        "Calculator": build["tools"]["Calculator"]["examples_at"]
    }
    count = build["tools"]["Calculator"]["examples_at"]["0.5"]
    assert f"| Calculator | 0.5 | {count:,} | 3,680 |" in markdown

    results = json.loads((out / "large" / "evaluation" / "results.json").read_bytes())
    assert size["scores"] == results["scores"]
    assert [(each["model"], each["api_top_k"]) for each in size["scores"]] == [
        ("base", 0), ("base + CC", 0), ("Toolformer", 0), ("Toolformer", 1), ("Toolformer", 10),
    ]  # fmt: skip
    assert size["parameters"] == 2_366_592
    assert len(size["perplexity"]) == 6
    assert all(each["documents"] == 16 for each in size["perplexity"])
    verdicts = {claim["slug"]: claim["verdict"] for claim in told["claims"]}
    assert len(verdicts) == 4
    for claim in told["claims"]:
        assert f"| {claim['finding']} | {claim['source']} | **{claim['verdict']}** |" in markdown


@pytest.mark.ray
def test_a_benchmark_without_files_has_no_number(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    markdown = (out / "results" / "reproduce.md").read_text()
    assert "| ASDiv (Table 4) | 7.5 / 9.6 / 14.8 / 40.4 | not measured |  |  |  |  |" in markdown
    assert "| large: base | " in markdown
    assert "(reproduce-figure-4.svg)" in markdown
    assert (out / "results" / "reproduce-figure-4.svg").read_text().startswith("<svg ")


@pytest.mark.ray
def test_calls_are_told_by_their_gain(finished: tuple[Path, dict[str, Any]]) -> None:
    out, _ = finished
    calls = json.loads((out / "results" / "reproduce.json").read_bytes())["calls"]
    gains = [call["gain"] for call in calls]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) == len({call["doc_id"] for call in calls}) == 3
    assert [call["kept"] for call in calls] == [gain >= 0.5 for gain in gains]
