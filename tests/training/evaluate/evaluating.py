"""Small evaluations as a user writes them, and the command, in this process."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from training.cli import main

PLAIN = {"path": "pipeline/demo/model", "calls": False}
OF_PLAIN, OF_TOOLFORMER = "demo-model", "demo-toolformer"  # as their directories are called
COUNTING = "tests.training.evaluate.counting_calculator:CountingCalculator"
TOOLFORMER = {"path": "pipeline/demo/toolformer"}


def written(directory: Path, **changes: Any) -> Path:
    """A configuration of sums for the demo's Toolformer, with `changes`."""
    settings: dict[str, Any] = {
        "out": str(directory / "out"),
        "models": {"Toolformer": TOOLFORMER},
        "tools": {"Calculator": {}, "Calendar": {}},
    } | changes
    if "benchmarks" not in settings:
        settings["benchmarks"] = [svamp(sums(directory))]
    path = directory / "evaluate.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return path


def svamp(path: Path) -> dict[str, Any]:
    return {"name": "svamp", "path": str(path), "max_new_tokens": 16}


def sums(directory: Path, number: int = 8, **first: str) -> Path:
    """A file in the layout of SVAMP; `first` has other fields of its first problem."""
    problems: list[dict[str, Any]] = [
        {
            "ID": f"sum-{n}",
            "Body": f"The mill sold {91 + n} eggs in May and {40 + 3 * n} in June.",
            "Question": "How many eggs did it sell?",
            "Answer": 131.0 + 4 * n,
            "Type": "Addition",
        }
        for n in range(number)
    ]
    problems[0] |= first
    path = directory / "SVAMP.json"
    path.write_text(json.dumps(problems))
    return path


def evaluate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What `python -m training evaluate ARGUMENTS` comes to."""
    printed, errors = io.StringIO(), io.StringIO()
    command = ["training", "evaluate", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as left,
    ):
        patch.setattr(sys, "argv", command)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "200")
        main()
    assert "Traceback" not in errors.getvalue()
    code = left.value.code or 0
    assert isinstance(code, int)
    return subprocess.CompletedProcess(command, code, printed.getvalue(), errors.getvalue())


def error_of(*arguments: object) -> str:
    """Why the command ends, in the one line that says so."""
    done = evaluate(*arguments)
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return said.removeprefix("error: ")


def lines(out: Path, model: str, benchmark: str) -> list[dict[str, Any]]:
    """The answers of a model, from the one file that has them."""
    path = answer_file(out, model, benchmark)
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answer_file(out: Path, model: str, benchmark: str) -> Path:
    """The one file that has the answers of a model."""
    (path,) = (out / "answers").glob(f"{model}-*/{benchmark}.*.jsonl")
    return path


def scores(out: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Those of results.json by model, benchmark and k."""
    found = json.loads((out / "results.json").read_bytes())["scores"]
    return {(each["model"], each["benchmark"], each["api_top_k"]): each for each in found}
