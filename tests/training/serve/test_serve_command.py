"""`python -m training serve`, as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from openai import OpenAI

from tests.pipeline.demo_runs import ROOT
from tests.training.serve.calling_model import SUM, calling_model, config
from tests.training.serve.serving import NOT_TAKEN, PATIENCE_S
from tools.base import ConfigError
from training.serve.command import serve_command
from training.serve.limits import Limits

KEY = "sk-of-a-file"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("served")
    made = config(calling_model(directory / "calling"), directory / "gate")
    path = directory / "serve.yaml"
    path.write_text(yaml.safe_dump(made.model_dump(mode="json")))
    return path


@pytest.fixture
def process(settings: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    (tmp_path / "key").write_text(KEY)
    command = [sys.executable, "-m", "training", "serve", str(settings), "--port", "0"]
    with subprocess.Popen(
        [*command, "--api-key-file", str(tmp_path / "key")],
        cwd=ROOT, env=os.environ | {"COLUMNS": "40"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        yield process
        process.kill()


def test_it_serves_until_it_is_told_to_end(
    process: "subprocess.Popen[str]", settings: Path
) -> None:
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith("serving calling at "):
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    assert lines[0] == f"loading {settings.parent / 'calling'}, tools: Calculator, Calendar\n"
    url = lines[-1].removeprefix("serving calling at ").strip()
    assert url.startswith("http://127.0.0.1:") and not url.endswith(":0/v1")

    gate = settings.parent / "gate"
    gate.touch()
    with (
        OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=PATIENCE_S) as client,
        client.completions.create(model="calling", prompt=SUM, stream=True) as stream,
    ):
        chunks: Iterator[Any] = iter(stream)
        while not hasattr(next(chunks).choices[0], "tool_calls"):
            pass
        process.send_signal(signal.SIGTERM)
        # Once this line is there, nothing new is taken; what runs goes on.
        lines.append(process.stdout.readline())
        assert lines[-1] == "ending; requests that run: 1\n"
        with pytest.raises(NOT_TAKEN):
            client.completions.create(model="calling", prompt="The sum of")
        gate.unlink()
        *_, last = chunks
        assert last.choices[0].annotated_text.startswith(" [Calculator(95 + 86) -> 181]")
    lines += process.stdout.readlines()
    assert process.wait(PATIENCE_S) == 0
    assert lines[-1] == "ended\n"
    said = "".join(lines)
    assert KEY not in said and "Traceback" not in said
    assert "200 after" in said and SUM[:20] not in said


def test_a_default_that_no_request_may_ask_for_is_refused(settings: Path) -> None:
    with pytest.raises(ConfigError, match=r"max_new_tokens is 16.*--max-new-tokens 15$"):
        serve_command(settings, max_new_tokens=15)


def test_the_readme_tells_the_limits_as_they_are() -> None:
    readme = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
    section = readme.split("\n## Serving\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^\| `--([a-z-]+)` \| ([\d,]+) \|", section, re.MULTILINE))
    limits = {field.name.replace("_", "-"): field.default for field in fields(Limits)}
    assert told == {name: f"{default:,.0f}" for name, default in limits.items()}
