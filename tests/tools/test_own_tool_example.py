"""The worked examples of tools/README.md, taken from there and run."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from pipeline.config import RunConfig
from tests.tools.remote.endpoint import serving
from tests.tools.remote.servers import free_port, listening
from tools.base import Tool, ToolRequest, ToolStatus
from tools.calls import parse_call
from tools.prompt import load_prompt
from tools.registry import build_tool

README = Path(__file__).parents[2] / "tools" / "README.md"


def block(language: str, holding: str) -> str:
    """The only code block of this language in the README that holds a text."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
    )
    (code,) = [code for code in blocks if holding in code]
    return str(code)


def configured(example: str) -> RunConfig:
    """A configuration with the tools of an example of the README."""
    rest = {"run": "runs/x", "input": "documents", "model": {"path": "gpt2"}}
    return RunConfig.model_validate(rest | yaml.safe_load(example))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a user, who has this Python on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for directory in ("my_tools", "my_prompts"):
        (tmp_path / directory).mkdir()
    return tmp_path


@pytest.fixture
def config(place: Path) -> Iterator[RunConfig]:
    """The example of a class as a user would have it: a directory with the three files."""
    (place / "my_tools" / "length.py").write_text(block("python", "# my_tools/length.py"))
    (place / "my_prompts" / "Length.txt").write_text(block("text", "a Length API"))
    yield configured(block("yaml", "my_tools.length:Length"))
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


Build = Callable[[str, str], Tool]


@pytest.fixture
def build(place: Path) -> Iterator[Build]:
    """Builds and loads the one tool of an example, and closes it afterwards."""
    built: list[Any] = []

    def build(name: str, example: str) -> Tool:
        settings = configured(example).tools[name]
        assert settings.prompt == Path(f"my_prompts/{name}.txt")
        tool = build_tool(name, factory=settings.factory, options=settings.options)
        cast(Any, tool).load()
        built.append(tool)
        return tool

    yield build
    for tool in built:
        tool.close()


def answers(tool: Tool, *inputs: str) -> list[tuple[str, str | None]]:
    results = tool.run([ToolRequest(input=text) for text in inputs])
    return [(str(result.status), result.result) for result in results]


@pytest.mark.parametrize("way", ["command", "url"])
def test_the_mcp_server_answers(place: Path, build: Build, way: str) -> None:
    pytest.importorskip("mcp")
    (place / "my_server.py").write_text(block("python", "# my_server.py"))
    asked = ("Paris", "Rome", "Atlantis", "../../etc")
    expected = [("ok", "Rain, 12 degrees."), ("ok", "Sun, 24 degrees.")] + [("failed", None)] * 2
    if way == "command":
        tool = build("Weather", block("yaml", "command: [python, my_server.py]"))
        assert answers(tool, *asked) == expected
        return
    port = free_port()
    example = block("yaml", "http://127.0.0.1:8000/mcp").replace("8000", str(port))
    with listening(lambda port: ["python", "my_server.py", str(port)], port):
        assert answers(build("Weather", example), *asked) == expected


def test_the_http_endpoint_answers(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSWERS_KEY", "0f1e2d")
    with serving() as endpoint:
        example = block("yaml", "tools.remote.http_tool:HttpTool")
        tool = build("Answer", example.replace("https://api.example.org", endpoint.url))
        assert answers(tool, "Why?") == [("ok", "Why? Nobody knows.")]
