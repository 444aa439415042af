import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.remote.endpoint import serving
from tests.tools.remote.servers import free_port, listening
from tools.base import ConfigError, ToolformerError, ToolRequest, ToolResult, ToolStatus
from tools.registry import build_tool
from tools.remote.mcp_tool import McpTool

pytest.importorskip("mcp")

FACTORY = "tools.remote.mcp_tool:McpTool"
BARE = str(Path(__file__).with_name("bare_server.py"))
SERVER = str(Path(__file__).with_name("weather_server.py"))
ROOT = str(Path(__file__).parents[3])

Make = Callable[..., McpTool]


SAY: dict[str, Any] = {"command": [sys.executable, BARE], "tool": "say", "argument": "what"}


def built(**options: Any) -> McpTool:
    way = {} if "url" in options else {"command": [sys.executable, SERVER]}
    given = {"tool": "get_weather", "argument": "city"} | way | options
    tool = build_tool("Weather", factory=FACTORY, options=given)
    assert isinstance(tool, McpTool)
    return tool


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[McpTool] = []

    def make(**options: Any) -> McpTool:
        made.append(built(**options))
        return made[-1]

    yield make
    for tool in made:
        tool.close()


@pytest.fixture(scope="module")
def weather() -> Iterator[McpTool]:
    """A session that several tests share."""
    tool = built(arguments={"unit": "F"})
    yield tool
    tool.close()


@pytest.fixture(scope="module")
def bare() -> Iterator[McpTool]:
    """A session that several tests share, with a server that they may end."""
    tool = built(**SAY)
    yield tool
    tool.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    port = free_port()
    with listening(lambda port: [sys.executable, SERVER, str(port)], port):
        yield f"http://127.0.0.1:{port}/mcp"


def ask(tool: McpTool, text: str) -> ToolResult:
    (result,) = tool.run([ToolRequest(input=text)])
    return result


def pid_of(tool: McpTool, text: str = "pid") -> int:
    """Which process answers, as it says itself."""
    result = ask(tool, text)
    assert result.result is not None, result
    return int(result.result.rpartition(" ")[2])


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


def gone(pid: int) -> bool:
    for _ in range(500):
        if not is_alive(pid):
            return True
        time.sleep(0.02)
    return False


def test_the_text_of_the_answer_is_the_result(weather: McpTool) -> None:
    results = weather.run([ToolRequest(input=city) for city in ("Paris", "Rome")])
    pid = pid_of(weather, "Paris")
    assert [result.result for result in results] == [
        f"'Paris': 20 F, says {pid}",
        f"'Rome': 20 F, says {pid}",
    ]


@pytest.mark.parametrize(
    "city",
    [
        "../../etc",
        "\r\n{}\r\n",
        '"}, "unit": "K"',
        "\x00",
        "\u2028\u202e",
        "$(id); `id`",
        "",
        "x" * 9999,
    ],
)
def test_any_text_arrives_as_it_is(weather: McpTool, city: str) -> None:
    assert ask(weather, city).result == f"{city!a}: 20 F, says {pid_of(weather, 'Paris')}"


@pytest.mark.parametrize(
    ("city", "why"),
    [("x" * 10_000_000, "more than 10000 bytes"), ("\ud800", "half of a surrogate")],
)
def test_what_is_too_large_or_no_text_is_not_sent(weather: McpTool, city: str, why: str) -> None:
    result = ask(weather, city)
    assert result.status is ToolStatus.INVALID and why in (result.error or "")


def test_an_error_of_the_servers_tool_is_not_blamed_on_the_input(weather: McpTool) -> None:
    before = pid_of(weather, "Paris")
    result = ask(weather, "Atlantis")
    assert (result.status, result.retryable) == (ToolStatus.FAILED, False)
    assert "get_weather" in (result.error or "")
    assert pid_of(weather, "Paris") == before


def test_a_server_that_dies_costs_one_call(bare: McpTool) -> None:
    before = pid_of(bare)
    died, after = bare.run([ToolRequest(input="die"), ToolRequest(input="pid")])
    assert (died.status, died.retryable) == (ToolStatus.FAILED, True)
    assert died.error == "Connection closed: the server ended (3): It was too much."
    assert after.status is ToolStatus.OK
    assert pid_of(bare) != before and gone(before)


def test_a_server_that_died_between_calls_costs_none(bare: McpTool) -> None:
    before = pid_of(bare)
    os.kill(before, signal.SIGKILL)
    for _ in range(500):
        if not vars(bare)["_session"].is_open:
            break
        time.sleep(0.02)
    assert gone(before) and pid_of(bare) != before


def test_an_answer_too_large_is_not_read_and_not_asked_for_again(bare: McpTool) -> None:
    before = pid_of(bare)
    result = ask(bare, "babble")
    assert (result.status, result.retryable) == (ToolStatus.FAILED, False)
    assert result.error == "the answer has more than 1000000 bytes"
    assert pid_of(bare) != before and gone(before)


def test_a_server_that_does_not_answer_is_replaced(make: Make) -> None:
    tool = make(**SAY, timeout_s=2.0)
    before = pid_of(tool)
    result = ask(tool, "hang")
    assert (result.status, result.retryable) == (ToolStatus.FAILED, True)
    assert result.error == "no answer in 2 s"
    assert pid_of(tool) != before and gone(before)


def test_closing_leaves_no_process(make: Make) -> None:
    tool = make(**SAY)
    pid = pid_of(tool)
    assert is_alive(pid)
    tool.close()
    assert gone(pid)


HOST = f"""
import sys
sys.path.insert(0, {ROOT!r})
from tools.base import ToolRequest
from tools.remote.mcp_tool import McpTool
tool = McpTool(name="Say", tool="say", argument="what", command=[sys.executable, {BARE!r}])
print(tool.run([ToolRequest(input="pid")])[0].result, flush=True)
if sys.argv[1] == "hang":
    tool.run([ToolRequest(input="hang")])  # such a server does not see that its input ends
"""


@pytest.mark.parametrize("ending", ["exit", "hang"])
def test_no_server_outlives_the_process_that_started_it(ending: str) -> None:
    if ending == "hang" and sys.platform != "linux":
        pytest.skip("only Linux tells a process that its parent was killed")
    command = [sys.executable, "-W", "error", "-c", HOST, ending]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        if ending == "hang":
            time.sleep(0.3)
            assert is_alive(pid)
            host.kill()
        assert host.wait(60) == (0 if ending == "exit" else -signal.SIGKILL)
    assert gone(pid)


def test_the_parts_that_are_text_are_the_answer(make: Make, address: str) -> None:
    tool = make(url=address, tool="picture")
    assert ask(tool, "Paris").result == "Paris\nseen from above"
    assert ask(tool, "").status is ToolStatus.EMPTY


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        ('{"content": [{"type": "text", "text": "as it is"}]}', "ok", "as it is"),
        (
            '{"content": [{"type": "text", "text": "a\\ud800b\\ud83d\\ude00"}]}',
            "ok",
            "a?b\U0001f600",
        ),
        ('{"content": [{"type": "text", "text": " \\n"}]}', "empty", "no text"),
        ('{"content": []}', "empty", "no text"),
        ('{"content": [{"type": "text", "text": "no"}], "isError": true}', "failed", "no"),
        ('{"content": [], "isError": true}', "failed", "an error"),
        ('{"content": 3}', "failed", "not an answer"),
        ('{}, "error": {"code": -32602, "message": "bad"}', "invalid", "bad"),
        ('{}, "error": {"code": -32050, "message": "odd"}', "failed", "odd"),
    ],
)
def test_a_server_that_keeps_to_nothing(bare: McpTool, said: str, status: str, text: str) -> None:
    result = ask(bare, said)
    assert (result.status, result.retryable) == (status, False), result
    assert text in (result.result or result.error or "")


@pytest.mark.parametrize(
    ("argument", "fixed", "answers"),
    [
        ("n", {}, {"21": "42.0 False", " -3 ": "-6.0 False", "2.5": None, "two": None, "": None}),
        ("plus", {"n": 1}, {"0.5": "2.5 False", "-1e1": "-8.0 False", "nan": None, "1e999": None}),
        ("wish", {"n": 1}, {"true": "2.0 True", "False": "2.0 False", "yes": None}),
    ],
)
def test_an_input_becomes_what_the_schema_asks_for(
    make: Make, address: str, argument: str, fixed: dict[str, Any], answers: dict[str, str | None]
) -> None:
    tool = make(url=address, tool="double", argument=argument, arguments=fixed)
    for text, answer in answers.items():
        result = ask(tool, text)
        assert result.result == answer, text
        assert result.status == ("ok" if answer else "invalid")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"tool": "get_wether"},
            "the MCP server has no tool 'get_wether'; it has double, get_weather, picture",
        ),
        ({"argument": "town"}, "'get_weather' of the MCP server has no argument 'town'; it has "),
        ({"arguments": {"day": 1}}, "has no argument 'day'; it has city, unit"),
        ({"argument": "unit"}, "also needs city; give fixed values in option 'arguments'"),
        (
            {"tool": "double", "argument": "of", "arguments": {"n": 1}},
            "argument 'of' of 'double' is of type array in the MCP server's schema, expected ",
        ),
        ({"headers": {"A": "${NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE, which is not set where"),
    ],
)
def test_loading_says_what_does_not_fit_the_server(
    make: Make, address: str, options: dict[str, Any], problem: str
) -> None:
    tool = make(url=address, **options)
    with pytest.raises(ConfigError) as error:
        tool.load()
    assert str(error.value).startswith("tool Weather: ") and problem in str(error.value)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["false"], "Connection closed: the server ended (1)"),
        (["sh", "-c", "echo hello; echo it is broken >&2; exit 4"], "ended (4): it is broken"),
        ([sys.executable, "-c", "import no_such_module"], "No module named 'no_such_module'"),
    ],
)
def test_a_server_that_does_not_start_is_one_line(
    make: Make, command: list[str], problem: str
) -> None:
    tool = make(command=command)
    with pytest.raises(ToolformerError) as error:
        tool.load()
    assert str(error.value).startswith("tool Weather: no MCP server: ")
    assert problem in str(error.value) and "\n" not in str(error.value)
    result = ask(tool, "Paris")  # while a run goes on, that costs calls
    assert (result.status, result.retryable) == (ToolStatus.FAILED, True)


def test_a_server_sees_of_the_environment_what_it_is_given(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_SECRET", "s3cr3t")
    monkeypatch.setenv("ITS_KEY", "abc")
    tool = make(**SAY, env={"API_KEY": "<${ITS_KEY}>"})
    assert [ask(tool, name).result for name in ("API_KEY", "OUR_SECRET", "ITS_KEY", "PATH")] == [
        "<abc>", "(not set)", "(not set)", os.environ["PATH"],
    ]  # fmt: skip
    assert "abc" not in tool.version


def test_a_server_at_an_address_answers_alike(make: Make, address: str) -> None:
    tool = make(url=address, arguments={"unit": "K"})
    pid = pid_of(tool, "Paris")
    assert ask(tool, "../..\r\nHost: x").result == f"'../..\\r\\nHost: x': 20 K, says {pid}"
    assert ask(tool, "Atlantis").status is ToolStatus.FAILED
    large = ask(tool, "Babel")
    assert (large.status, large.retryable) == (ToolStatus.FAILED, False)
    assert large.error == "the answer has more than 1000000 bytes"
    assert pid_of(tool, "Paris") == pid


def test_a_fixed_argument_may_be_in_the_environment(
    make: Make, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    monkeypatch.setenv("ITS_UNIT", "s3cr3t")
    tool = make(url=address, arguments={"unit": "${ITS_UNIT}"})
    assert (ask(tool, "${ITS_UNIT}").result or "").startswith("'${ITS_UNIT}': 20 s3cr3t, ")
    ours = [record.getMessage() for record in caplog.records if "20 s3" not in record.getMessage()]
    assert "s3cr3t" not in "".join(ours) + tool.version


def test_a_server_at_an_address_may_go_and_come_back(make: Make) -> None:
    port = free_port()

    def command(port: int) -> list[str]:
        return [sys.executable, SERVER, str(port)]

    tool = make(url=f"http://127.0.0.1:{port}/mcp")
    with listening(command, port):
        before = pid_of(tool, "Paris")
        assert ask(tool, "Pompeii").retryable
    result = ask(tool, "Paris")
    assert (result.status, result.retryable) == (ToolStatus.FAILED, True)
    assert "no MCP server: ConnectError" in (result.error or "")
    with listening(command, port):
        assert pid_of(tool, "Paris") != before


def test_a_session_whose_server_stops_answering_is_left_in_time(make: Make) -> None:
    with serving() as endpoint:
        tool = make(url=endpoint.url + "/session", timeout_s=0.5)
        tool.load()
        started = time.monotonic()
        result = ask(tool, "Paris")
        assert time.monotonic() - started < 10
        assert (result.error, result.retryable) == ("no answer in 0.5 s", True)
        assert endpoint.asked[-1][1]["mcp-session-id"] == "1"


def test_a_server_at_an_address_leads_nowhere_else(make: Make) -> None:
    with serving() as endpoint, serving() as other:
        endpoint.elsewhere = other.url + "/echo"
        for path, problem in [
            ("/redirect-post", "redirects are not followed"),
            ("/bomb", "compressed"),
            ("/html", "text/html"),
            ("/endless", "more than 1000000 bytes"),
        ]:
            with pytest.raises(ToolformerError) as error:
                make(url=endpoint.url + path).load()
            assert str(error.value).startswith("tool Weather: no MCP server: ")
            assert problem in str(error.value), path
        assert not other.asked
