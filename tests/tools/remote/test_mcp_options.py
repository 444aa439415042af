"""The options of an MCP tool: what cannot be used is named, and all of them are the version."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.base import ConfigError, Tool
from tools.registry import build_tool

pytest.importorskip("mcp")

FACTORY = "tools.remote.mcp_tool:McpTool"
SERVER = str(Path(__file__).with_name("weather_server.py"))
ROOT = str(Path(__file__).parents[3])


def built(**options: Any) -> Tool:
    way = {} if "url" in options else {"command": [sys.executable, SERVER]}
    given = {"tool": "get_weather", "argument": "city"} | way | options
    return build_tool("Weather", factory=FACTORY, options=given)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"command": None}, "give either command (a server to start) or url"),
        ({"url": "http://host/mcp", "command": ["x"]}, "give either command"),
        ({"command": []}, "'command' is [], expected a program"),
        ({"command": "python server.py"}, "'command' is 'python server.py': Input should be a "),
        ({"command": ["no-such-program"]}, "there is no program 'no-such-program'"),
        ({"command": ["a\0b"]}, "expected a program"),
        ({"url": "ws://host/mcp"}, "expected http://host/path"),
        ({"url": "http://host/mcp", "env": {}}, "'env' goes with command"),
        ({"headers": {}}, "'headers' goes with url"),
        ({"arguments": {"city": "x"}}, "'city' carries the input"),
        ({"arguments": {"apiKey": "abc"}}, "apiKey is given as it is"),
        ({"url": "http://host/mcp?token=abc"}, "token is given as it is"),
        ({"env": {"API_KEY": "abc"}}, "as in ${API_KEY}"),
        ({"timeout_s": -1}, "'timeout_s' is -1.0, expected more than 0"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        built(**options)
    assert str(error.value).startswith("tool Weather: ") and problem in str(error.value)


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(
        ConfigError, match=r"^tool Weather: needs the package mcp: pip install mcp$"
    ):
        built()


def test_the_version_changes_with_every_option() -> None:
    changed: list[dict[str, Any]] = [
        {}, {"tool": "double"}, {"argument": "unit"}, {"command": [sys.executable, SERVER, "x"]},
        {"url": "http://host/mcp"}, {"arguments": {"unit": "F"}}, {"env": {"A": "b"}},
        {"version": "2"}, {"timeout_s": 3.0}, {"start_timeout_s": 3.0}, {"max_input_bytes": 9},
        {"max_response_bytes": 9},
    ]  # fmt: skip
    assert len({built(**options).version for options in changed}) == len(changed)
    assert built().version == built().version


def test_building_it_starts_nothing_and_imports_nothing_of_mcp() -> None:
    code = f"""
import sys
sys.path.insert(0, {ROOT!r})
from tools.remote.mcp_tool import McpTool
McpTool(name="W", tool="t", argument="a", command=["sh", "-c", "touch started"])
assert "mcp" not in sys.modules and "anyio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
