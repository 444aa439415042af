import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tools.base import ConfigError, ToolRequest, ToolResult
from tools.registry import BUILT_IN, build_tool

MODULE = """
from collections.abc import Sequence
from pathlib import Path

from tools.base import InputError, ToolRequest, ToolResult


class Upper:
    name = "Upper"

    def __init__(self, *, suffix: str = "", times: int = 1, where: Path | None = None) -> None:
        self.version = f"1:{suffix}:{times}"
        self.where = where
        self._suffix, self._times = suffix, times

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [ToolResult.ok((r.input.upper() + self._suffix) * self._times) for r in requests]


class Nameless:
    version = "1"

    def run(self, requests):
        return []


class Versionless(Nameless):
    name = "Versionless"
    version = None


class Runless:
    name, version = "Runless", "1"


class Named(Upper):
    def __init__(self, name: str, *, suffix: str = "") -> None:
        super().__init__(suffix=suffix)
        self.name = name


def misnamed(name):
    return Named(name + "2")


def needs(corpus):
    return Upper()


def anything(**options):
    return Upper(suffix=repr(sorted(options)))


def breaks():
    raise OSError("the moon is down")


def cannot_load():
    raise InputError("corpus.jsonl: torn")


def breaks_in_lines():
    raise ValueError("first line\\nsecond line")


number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an importable module with tools of a user's own."""
    name = "tools_of_a_user"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    sys.modules.pop(name, None)


def answers(requests: Sequence[ToolResult]) -> list[str | None]:
    return [result.result for result in requests]


def test_built_in_tools_are_known_by_name() -> None:
    assert list(BUILT_IN) == ["Calculator", "Calendar", "WikiSearch", "QA", "MT"]
    tool = build_tool("Calculator", factory=None, options={})
    assert (tool.name, answers(tool.run([ToolRequest(input="1 + 1")]))) == ("Calculator", ["2"])
    assert build_tool("Calendar", factory=None, options={}).name == "Calendar"


def test_an_unknown_tool_is_named_with_the_closest_known_one() -> None:
    with pytest.raises(ConfigError) as error:
        build_tool("calulator", factory=None, options={})
    assert "tool calulator: no such tool, did you mean Calculator?" in str(error.value)
    assert "Calculator, Calendar, WikiSearch" in str(error.value)
    assert "tools.calulator.factory" in str(error.value)
    with pytest.raises(ConfigError, match=r"tool Dog: no such tool; there are"):
        build_tool("Dog", factory=None, options={})


def test_a_tool_of_a_user_is_built_from_its_options(module: str, tmp_path: Path) -> None:
    options = {"suffix": "!", "times": 2, "where": str(tmp_path)}
    tool = build_tool("Upper", factory=f"{module}:Upper", options=options)
    assert answers(tool.run([ToolRequest(input="ab")])) == ["AB!AB!"]
    assert tool.version == "1:!:2"
    assert vars(tool)["where"] == tmp_path  # as its annotation says


def test_a_factory_may_take_any_options(module: str) -> None:
    tool = build_tool("Upper", factory=f"{module}:anything", options={"b": 1, "a": [2]})
    assert answers(tool.run([ToolRequest(input="")])) == ["['a', 'b']"]


@pytest.mark.parametrize(
    ("name", "factory", "options", "problem"),
    [
        ("Calculator", None, {"digits": 3}, "unknown option 'digits'; it takes none"),
        ("Upper", ":Upper", {"sufix": "!"}, "unknown option 'sufix', did you mean suffix?; it "),
        ("Upper", ":Upper", {"times": "two"}, "option 'times' is 'two': Input should be a valid "),
        ("Upper", ":Upper", {"suffix": 3}, "option 'suffix' is 3: Input should be a valid string"),
        ("Upper", ":needs", {}, "option 'corpus' is required"),
        ("Shout", ":misnamed", {}, "built a tool called 'Shout2'"),
        ("Shout", ":Named", {"name": "Shout"}, "'name' is no option; the tool is called what it "),
        ("Shout", ":Named", {"sufix": "!"}, "unknown option 'sufix', did you mean suffix?; it "),
        ("Shout", ":misnamed", {"x": 1}, "unknown option 'x'; it takes none"),
        ("Upper", ":breaks_in_lines", {}, "ValueError: first line second line"),
        ("Upper", ":breaks", {}, "breaks cannot build it from the options {}: OSError: the moon"),
        ("Upper", ":absent", {}, "tools_of_a_user has no callable 'absent'"),
        ("Upper", ":number", {}, "tools_of_a_user has no callable 'number'"),
        ("Upper", "", {}, "'tools_of_a_user', expected package.module:callable"),
        ("Upper", ".more:Upper", {}, "cannot import tools_of_a_user.more"),
        ("Lower", ":Upper", {}, "built a tool called 'Upper'"),
        ("Nameless", ":Nameless", {}, "has no name that is a str"),
        ("Versionless", ":Versionless", {}, "has no version that is a str"),
        ("Runless", ":Runless", {}, "has no method run"),
    ],
)
def test_what_cannot_be_built_is_named(
    module: str, name: str, factory: str | None, options: dict[str, object], problem: str
) -> None:
    path = None if factory is None else module + factory
    with pytest.raises(ConfigError) as error:
        build_tool(name, factory=path, options=options)
    assert str(error.value).startswith(f"tool {name}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_factory_that_takes_a_name_makes_several_tools(module: str) -> None:
    for name in ("Shout", "Cry"):
        tool = build_tool(name, factory=f"{module}:Named", options={"suffix": "!"})
        assert (tool.name, answers(tool.run([ToolRequest(input="ab")]))) == (name, ["AB!"])


def test_a_module_that_cannot_be_imported_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_that_breaks.py").write_text('raise ImportError("first\\nsecond")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=r"cannot import .*: ImportError: first second$"):
        build_tool("Upper", factory="module_that_breaks:Upper", options={})


def test_errors_of_the_tree_pass_as_they_are(module: str) -> None:
    with pytest.raises(Exception, match=r"^corpus\.jsonl: torn$"):
        build_tool("Upper", factory=f"{module}:cannot_load", options={})
