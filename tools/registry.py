"""From the name of a tool in a configuration to the tool: ours, or anyone's by import path."""

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from tools.base import ConfigError, Tool, ToolformerError, one_line
from tools.import_path import imported

# Import paths, not imports: what a tool loads is loaded where it runs.
BUILT_IN = {
    "Calculator": "tools.calculator:Calculator",
    "Calendar": "tools.calendar_date:CalendarTool",
    "WikiSearch": "tools.wikisearch.tool:WikiSearch",
    "QA": "tools.atlas.tool:AtlasQA",
    "MT": "tools.translation.tool:MT",
}


def build_tool(name: str, *, factory: str | None, options: dict[str, Any]) -> Tool:
    """The tool called `name`: what `factory` ("package.module:callable") makes of `options`.

    Without a factory it is one of BUILT_IN. A factory with a parameter `name` is given the name,
    so that it can make several tools; it is no option.

    Raises:
        ConfigError: there is no such tool or callable, an option is unknown, missing or has the
            wrong type, or what was built does not keep the contract of tools.base.Tool.
        ToolformerError: whatever else the tool says of its files.
    """
    path = factory if factory is not None else _built_in(name)
    make = imported(path, who=f"tool {name}")
    arguments = _checked_options(name, make, options)
    try:
        tool = make(**arguments)
    except ToolformerError:
        raise
    except Exception as error:  # the factory may be anyone's code
        raise ConfigError(
            f"tool {name}: {path} cannot build it from the options {options}: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    return _checked_tool(name, path, tool)


def _built_in(name: str) -> str:
    if name in BUILT_IN:
        return BUILT_IN[name]
    raise ConfigError(
        f"tool {name}: no such tool{_did_you_mean(name, list(BUILT_IN))}; there are "
        f"{', '.join(BUILT_IN)}, and a tool of your own is named by "
        f"tools.{name}.factory: package.module:callable"
    )


def _checked_options(
    name: str, make: Callable[..., Any], options: dict[str, Any]
) -> dict[str, Any]:
    """`options`, converted to what the parameters of `make` are annotated with, and the name."""
    try:
        parameters = inspect.signature(make).parameters
    except ValueError:  # a callable written in C; building it will show what is wrong
        return options
    named = {
        key: parameter
        for key, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    given = {"name": name} if named.pop("name", None) else {}
    if given and "name" in options:
        raise ConfigError(f"tool {name}: 'name' is no option; the tool is called what it is here")
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for key in options:
            if key not in named:
                raise ConfigError(
                    f"tool {name}: unknown option {key!r}{_did_you_mean(key, list(named))}; "
                    f"it takes {', '.join(named) or 'none'}"
                )
    for key, parameter in named.items():
        if parameter.default is parameter.empty and key not in options:
            raise ConfigError(f"tool {name}: option {key!r} is required")
    return given | {
        key: _checked_value(name, key, value, named[key].annotation) if key in named else value
        for key, value in options.items()
    }


def _checked_value(name: str, key: str, value: Any, annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty or isinstance(annotation, str):
        return value
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    except PydanticUserError:  # a type of the tool's own
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        problems = "; ".join(problem["msg"] for problem in error.errors())
        raise ConfigError(f"tool {name}: option {key!r} is {value!r}: {problems}") from None


def _checked_tool(name: str, path: str, tool: Any) -> Tool:
    for attribute in ("name", "version"):
        if not isinstance(getattr(tool, attribute, None), str):
            raise ConfigError(f"tool {name}: what {path} built has no {attribute} that is a str")
    if not callable(getattr(tool, "run", None)):
        raise ConfigError(f"tool {name}: what {path} built has no method run")
    if tool.name != name:
        raise ConfigError(f"tool {name}: {path} built a tool called {tool.name!r}")
    return tool  # type: ignore[no-any-return]


def _did_you_mean(word: str, known: list[str]) -> str:
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(word.lower(), list(by_lower_case), n=1)
    return f", did you mean {by_lower_case[close[0]]}?" if close else ""
