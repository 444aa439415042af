"""What a chat model is told of the tools."""

import pytest

from pipeline.config import ToolConfig
from tools.base import ConfigError
from tools.registry import BUILT_IN
from training.chat_export.tool_schemas import tool_schemas, tools_that_unquote

OWN = "tests.training.chat_export.own_tools"


def own(factory: str) -> dict[str, ToolConfig]:
    return {"Length": ToolConfig(factory=factory)}


def test_every_tool_that_is_built_in_is_described() -> None:
    schemas = tool_schemas({name: ToolConfig() for name in BUILT_IN}, {})
    functions = [schema["function"] for schema in schemas]
    assert [each["name"] for each in functions] == list(BUILT_IN)
    assert len({each["description"] for each in functions}) == len(BUILT_IN)
    assert all(schema["type"] == "function" for schema in schemas)
    for each in functions:
        parameters = each["parameters"]
        assert (parameters["type"], parameters["required"]) == ("object", ["input"])
        assert parameters["properties"]["input"]["type"] == "string"
        assert parameters["properties"]["input"]["description"]


def test_a_tool_of_ones_own_is_described_by_its_docstring() -> None:
    (schema,) = tool_schemas(own(f"{OWN}:Length"), {})
    assert schema["function"]["description"] == "Converts a length to another unit."


def test_what_is_said_on_the_command_line_comes_first() -> None:
    tools = own("not.there:Length") | {"QA": ToolConfig()}
    length, qa = tool_schemas(tools, {"Length": "Metres.", "QA": "Asks Ann."})
    assert length["function"]["description"] == "Metres."
    assert qa["function"]["description"] == "Asks Ann."


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (f"{OWN}:Silent", "tool Length: nothing describes it to a chat model; say what it does"),
        ("tools.remote.mcp_tool:McpTool", "tool Length: nothing describes it"),
        ("tools.remote.http_tool:HttpTool", "tool Length: nothing describes it"),
        ("not.there:Length", "tool Length: cannot import not.there: .* --describe Length="),
    ],
)
def test_a_tool_that_nothing_describes_is_refused(factory: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"^{why}"):
        tool_schemas(own(factory), {})


def test_a_tool_that_is_not_there_cannot_be_described() -> None:
    with pytest.raises(ConfigError, match=r"--describe Calc: no such tool in this run; it has QA$"):
        tool_schemas({"QA": ToolConfig()}, {"Calc": "Computes."})


def test_quotation_marks_stay_where_a_tool_of_ones_own_may_read_them() -> None:
    tools = {name: ToolConfig() for name in BUILT_IN}
    assert tools_that_unquote(tools) == {"QA", "WikiSearch"}
    assert tools_that_unquote(tools | {"QA": ToolConfig(factory="a:B")}) == {"WikiSearch"}
