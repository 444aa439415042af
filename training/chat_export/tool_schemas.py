"""The tools of a run as the JSON schemas that chat templates put before a conversation."""

import inspect
from collections.abc import Mapping
from typing import Any

from pipeline.config import ToolConfig
from tools.base import ConfigError
from tools.import_path import imported

# What a tool does, and what its input is.
_BUILT_IN = {
    "Calculator": (
        "Computes an expression exactly.",
        "Numbers with + - * / and parentheses, as 3 + 4.",
    ),
    "Calendar": ("Says what day it is today.", "Nothing: an empty text."),
    "WikiSearch": (
        "Searches Wikipedia and returns the passage that fits best.",
        "What to search for.",
    ),
    "QA": ("Answers a question about the world.", "The question."),
    "MT": ("Translates a text into English.", "The text, in any language."),
}
_ANY_INPUT = "What the tool is asked, as text."
# They ask whatever they are configured for, which their docstrings cannot say.
_GO_BETWEENS = ("tools.remote.http_tool:HttpTool", "tools.remote.mcp_tool:McpTool")


def tool_schemas(
    tools: Mapping[str, ToolConfig], described: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The schema of each tool, in their order; each takes one text, `input`.

    What a tool does is said by `described`, else known of the five that are built in, and else
    the first paragraph of the docstring of the tool's class.

    Raises:
        ConfigError: nothing says what a tool does, its class cannot be imported, or `described`
            names a tool that is not there.
    """
    unknown = sorted(set(described) - set(tools))
    if unknown:
        raise ConfigError(
            f"--describe {unknown[0]}: no such tool in this run; it has {', '.join(tools)}"
        )
    return [_schema(name, tool, described.get(name)) for name, tool in tools.items()]


def tools_that_unquote(tools: Mapping[str, ToolConfig]) -> frozenset[str]:
    """Those that are asked the same with quotation marks around their input as without."""
    own = {name for name, tool in tools.items() if tool.factory is None}
    return frozenset(own & {"QA", "WikiSearch"})


def _schema(name: str, tool: ToolConfig, described: str | None) -> dict[str, Any]:
    known, of_input = ("", _ANY_INPUT) if tool.factory is not None else _BUILT_IN[name]
    properties = {"input": {"type": "string", "description": of_input}}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": described or known or _docstring(name, tool),
            "parameters": {"type": "object", "properties": properties, "required": ["input"]},
        },
    }


def _docstring(name: str, tool: ToolConfig) -> str:
    assert tool.factory is not None
    how = f'say what it does: --describe {name}="..."'
    text = ""
    if tool.factory not in _GO_BETWEENS:
        try:
            text = imported(tool.factory, who=f"tool {name}").__doc__ or ""
        except ConfigError as error:
            raise ConfigError(f"{error}; {how}") from None
    paragraph = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    if not paragraph:
        raise ConfigError(f"tool {name}: nothing describes it to a chat model; {how}")
    return paragraph
