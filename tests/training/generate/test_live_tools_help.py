"""The finetuned demo model on held-out forms, with the demo's tools, and without any."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from training.cli import app

MODEL, PLAIN = (str(Path("pipeline/demo", name)) for name in ("toolformer", "toolformer-plain"))
TOOLS = ("Calculator", "Calendar", "WikiSearch", "QA", "MT")
Counts = dict[str, dict[str, int]]  # by tool, and of all


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counts]:
    """Of the model with tools, of the same with calls disabled, of the one finetuned on C.

    As the README measures them, on fewer documents.
    """
    out = tmp_path_factory.mktemp("measured") / "scores.json"
    asked = ["training/configs/generate-demo.yaml", "--model", MODEL, "--baseline", PLAIN]
    asked += ["--documents", "240", "--out", str(out)]
    ended = CliRunner().invoke(app, ["measure-generate", *asked])
    assert ended.exit_code == 0, ended.output
    written: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    assert written["forms"] == "held-out" and written["documents"] == 240
    measured: dict[str, Counts] = written["scores"]
    return measured


def share(count: str, of: Counts, tool: str = "all") -> float:
    return of[tool][count] / of[tool]["questions"]


def test_most_answers_are_right_with_tools_and_few_without(scores: dict[str, Counts]) -> None:
    with_tools, disabled, plain = scores.values()
    assert with_tools["all"]["questions"] > 200
    assert share("right_answer", with_tools) >= 0.6, with_tools["all"]
    assert share("right_answer", disabled) < 0.15, disabled["all"]
    assert share("right_answer", plain) < 0.15, plain["all"]


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_helps(scores: dict[str, Counts], tool: str) -> None:
    with_tools, disabled, plain = scores.values()
    assert with_tools[tool]["questions"] >= 20
    without = max(share("right_answer", disabled, tool), share("right_answer", plain, tool))
    assert share("right_answer", with_tools, tool) > 0.3 + without


def test_the_right_tool_is_called_and_mostly_with_the_right_argument(
    scores: dict[str, Counts],
) -> None:
    with_tools = scores["with tools"]
    assert share("right_tool", with_tools) >= 0.8, with_tools["all"]
    assert share("right_call", with_tools) >= 0.6, with_tools["all"]


def test_no_call_is_made_where_calls_are_disabled(scores: dict[str, Counts]) -> None:
    _, disabled, plain = scores.values()
    assert disabled["all"]["with_call"] == 0
    assert plain["all"]["with_call"] == 0
