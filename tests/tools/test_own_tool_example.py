"""The worked example of tools/README.md, taken from there and run."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pipeline.config import RunConfig
from tools.base import ToolRequest, ToolStatus
from tools.calls import parse_call
from tools.prompt import load_prompt
from tools.registry import build_tool

README = Path(__file__).parents[2] / "tools" / "README.md"


def block(language: str) -> str:
    """The only code block of this language in the README."""
    (code,) = re.findall(
        rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
    )
    return str(code)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunConfig]:
    """The example as a user would have it: a directory with the three files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for directory in ("my_tools", "my_prompts"):
        (tmp_path / directory).mkdir()
    (tmp_path / "my_tools" / "length.py").write_text(block("python"))
    (tmp_path / "my_prompts" / "Length.txt").write_text(block("text"))
    rest = {"run": "runs/x", "input": "documents", "model": {"path": "gpt2"}}
    yield RunConfig.model_validate(rest | yaml.safe_load(block("yaml")))
    for module in ("my_tools", "my_tools.length"):
        sys.modules.pop(module, None)


def test_the_example_answers(config: RunConfig) -> None:
    settings = config.tools["Length"]
    tool = build_tool("Length", factory=settings.factory, options=settings.options)
    asked = ("26.2 miles in km", "12 feet in m", "5 leagues in km", "")
    results = tool.run([ToolRequest(input=text) for text in asked])
    assert [result.result for result in results] == ["42.16", "3.66", None, None]
    assert [result.status for result in results[2:]] == [ToolStatus.INVALID] * 2
    assert tool.version == "1:decimals=2"


def test_its_thresholds_are_the_papers_but_one(config: RunConfig) -> None:
    settings = config.tools["Length"]
    assert (settings.tau_s, settings.tau_f, settings.k, settings.m) == (0.05, 0.5, 5, 5)


def test_its_prompt_shows_calls_the_tool_answers_as_the_text_goes_on(config: RunConfig) -> None:
    settings = config.tools["Length"]
    tool = build_tool("Length", factory=settings.factory, options=settings.options)
    assert settings.prompt is not None
    outputs = re.findall(
        r"^Output: .*\[(.+)\] ([0-9.]+) ", load_prompt(settings.prompt), re.MULTILINE
    )
    assert len(outputs) == 2
    for text, expected in outputs:
        call = parse_call(text, "Length")
        assert call is not None
        (result,) = tool.run([ToolRequest(input=call.input)])
        assert result.result == expected
