"""The options of an HTTP tool: what cannot be used is named, and all of them are the version."""

from typing import Any

import pytest

from tools.base import ConfigError
from tools.registry import build_tool

FACTORY = "tools.remote.http_tool:HttpTool"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "ftp://host/x"}, "'ftp://host/x', expected http://host/path"),
        ({"url": "file:///etc/passwd"}, "expected http://host/path"),
        ({"url": "host/x"}, "expected http://host/path"),
        ({"url": "http://"}, "expected http://host/path"),
        ({"url": "http://host:99999/"}, "Port out of range"),
        ({"url": "http://host/a b"}, "without spaces"),
        ({"url": "http://host/\r\nX: 1"}, "without spaces"),
        ({"url": "http://host/#top"}, "without a fragment"),
        ({"url": "http://me:pass@host/"}, "holds credentials"),
        ({"method": "PUT"}, "Input should be 'POST' or 'GET'"),
        ({"timeout_s": 0}, "'timeout_s' is 0.0, expected more than 0"),
        ({"max_input_bytes": -1}, "'max_input_bytes' is -1, expected more than 0"),
        ({"invalid_statuses": [404, 200]}, "'invalid_statuses': 200 does not say"),
        ({"invalid_statuses": [429]}, "'invalid_statuses': 429 does not say"),
        ({"arguments": {"q": 1}}, "'q' carries the input and cannot be fixed too"),
        ({"arguments": {"a": [1]}, "method": "GET"}, "'a' is [1], expected text or a number"),
        ({"url": "http://host/?q=1", "method": "GET"}, "'q' carries the input"),
        ({"headers": {"Host": "evil"}}, "'Host' is set by the client itself"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "'X-A' cannot be sent"),
        ({"headers": {"X A": "a"}}, "'X A' cannot be sent"),
        ({"headers": {"X-Api-Key": "abc"}}, "as in ${X_API_KEY}"),
        ({"headers": {"authorization": "Bearer abc"}}, "as in ${AUTHORIZATION}"),
        ({"headers": {"Proxy-Authorization": "abc"}}, "as in ${PROXY_AUTHORIZATION}"),
        ({"headers": {"X-Auth": "abc"}}, "as in ${X_AUTH}"),
        ({"url": "http://host/?v=1&api_key=pass@1"}, "in 'headers' or 'arguments', as ${API_KEY}"),
        ({"arguments": {"api_key": "abc"}}, "'arguments': api_key is given as it is"),
        ({"arguments": {"accessToken": "abc"}}, "accessToken is given as it is"),
        ({"arguments": {"with": [{"DB_PASSWD": "abc"}]}}, "DB_PASSWD is given as it is"),
        ({"arguments": {"client-credentials": "abc"}}, "client-credentials is given"),
        ({"name": "Other"}, "'name' is no option"),
        ({"reslt": "x"}, "unknown option 'reslt', did you mean result?"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options: dict[str, Any], problem: str) -> None:
    given = {"url": "http://host/", "argument": "q", "result": "x"} | options
    with pytest.raises(ConfigError) as error:
        build_tool("Ask", factory=FACTORY, options=given)
    assert str(error.value).startswith("tool Ask: ") and problem in str(error.value)
    assert "\n" not in str(error.value) and "pass@" not in str(error.value)


def test_the_version_changes_with_every_option() -> None:
    base: dict[str, Any] = {"url": "http://host/", "argument": "q", "result": "x"}
    changed: list[dict[str, Any]] = [
        {}, {"url": "http://host/2"}, {"argument": "p"}, {"result": "y"}, {"method": "GET"},
        {"arguments": {"a": 1}}, {"arguments": {"a": "1"}}, {"headers": {"X-A": "b"}},
        {"version": "2"}, {"timeout_s": 3.0}, {"max_input_bytes": 9}, {"max_response_bytes": 9},
        {"invalid_statuses": [404]},
    ]  # fmt: skip
    tools = [build_tool("Ask", factory=FACTORY, options=base | more) for more in changed]
    assert len({tool.version for tool in tools}) == len(changed)
    assert build_tool("Ask", factory=FACTORY, options=base).version == tools[0].version
    assert tools[8].version.startswith("2:2:")
