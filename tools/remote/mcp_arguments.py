"""From the text of a call to a value of the type that an MCP server's schema asks for."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from tools.base import ConfigError

_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?"
)


class NotConvertible(ValueError):
    """The text of a call is no value of the type the server asks for; the text says which."""


Converter = Callable[[str], str | int | float | bool]


def converter_of(
    tools: Mapping[str, Mapping[str, Any]], *, tool: str, argument: str, fixed: Mapping[str, Any]
) -> Converter:
    """What makes the value of `argument` out of an input.

    Args:
        tools: the schema of the arguments (JSON Schema) of every tool of a server, by name.
        fixed: the arguments that are always the same.

    Raises:
        ConfigError: the server has no such tool, or this tool cannot be called with these
            arguments.
    """
    if tool not in tools:
        there_are = ", ".join(sorted(tools)) or "none"
        raise ConfigError(f"the MCP server has no tool {tool!r}; it has {there_are}")
    schema = tools[tool]
    properties = schema.get("properties") or {}
    for given in (argument, *fixed):
        if given not in properties and (properties or schema.get("additionalProperties") is False):
            takes = ", ".join(sorted(properties)) or "none"
            raise ConfigError(
                f"{tool!r} of the MCP server has no argument {given!r}; it has {takes}"
            )
    missing = set(schema.get("required") or ()) - {argument, *fixed}
    if missing:
        raise ConfigError(
            f"{tool!r} of the MCP server also needs {', '.join(sorted(missing))}; "
            "give fixed values in option 'arguments'"
        )
    types = _types(properties.get(argument, {}))
    for name, convert in _CONVERTERS.items():
        if name in types or not types:
            return convert
    raise ConfigError(
        f"argument {argument!r} of {tool!r} is of type {' or '.join(sorted(types))} in the MCP "
        f"server's schema, expected {', '.join(_CONVERTERS)}"
    )


def _types(schema: Any) -> set[str]:
    """The JSON types a schema names, itself or in its alternatives; none if it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type") or ()
    types = {named} if isinstance(named, str) else {*named}
    for alternative in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        types |= _types(alternative)
    return types - {"null"}


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise NotConvertible("expected an integer")
    return int(text)


def _number(text: str) -> float:
    if _NUMBER.fullmatch(text.strip()) is None or not math.isfinite(float(text)):
        raise NotConvertible("expected a number")
    return float(text)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise NotConvertible("expected true or false")
    return word == "true"


# In order of preference, where a schema leaves the choice.
_CONVERTERS: dict[str, Converter] = {
    "string": str,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
