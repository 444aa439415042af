import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.tools.remote.endpoint import Endpoint, serving
from tools.base import ConfigError, ToolRequest, ToolResult, ToolStatus
from tools.registry import build_tool
from tools.remote.http_tool import HttpTool

FACTORY = "tools.remote.http_tool:HttpTool"
HOSTILE = (
    "../../etc/passwd",
    "@evil.example/",
    "//evil.example/x",
    "http://evil.example/",
    "\r\nHost: evil.example\r\n\r\nGET /other HTTP/1.1",
    "?a=b#c",
    "&q=second&admin=1",
    "%0d%0aX: 1",
    '","admin":true,"q":"',
    "\x00\x1b[31m",
    "\u202egnp.exe\ufeff",
    "${HOME} $(id) `id` ; id",
    "caf\u00e9 \U0001f600",
    "",
)

Make = Callable[..., HttpTool]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as endpoint:
        yield endpoint


@pytest.fixture
def make(endpoint: Endpoint) -> Iterator[Make]:
    """Makes tools that ask a path of the endpoint, as a configuration would."""
    made: list[HttpTool] = []

    def make(path: str = "/echo", **options: Any) -> HttpTool:
        given = {"url": endpoint.url + path, "argument": "q", "result": "data.0.text"} | options
        tool = build_tool("Ask", factory=FACTORY, options=given)
        assert isinstance(tool, HttpTool)
        made.append(tool)
        return tool

    yield make
    for tool in made:
        tool.close()


def ask(tool: HttpTool, text: str = "x") -> ToolResult:
    (result,) = tool.run([ToolRequest(input=text)])
    return result


def test_an_input_is_posted_in_its_field_beside_the_fixed_ones(
    make: Make, endpoint: Endpoint
) -> None:
    tool = make(arguments={"lang": "en", "n": 1})
    assert ask(tool, "caf\u00e9 \u2192 2").result == "caf\u00e9 \u2192 2"
    line, headers, body = endpoint.asked[0]
    assert line == "POST /echo HTTP/1.1"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"lang": "en", "n": 1, "q": "caf\u00e9 \u2192 2"}


def test_with_get_it_is_a_parameter_of_the_query(make: Make, endpoint: Endpoint) -> None:
    tool = make("/echo?v=2", method="GET", arguments={"n": 1, "deep": True, "lang": "en"})
    assert ask(tool, "a b&c=d").result == "v=2&n=1&deep=true&lang=en&q=a+b%26c%3Dd"
    assert endpoint.asked[0][2] == b""


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_no_input_changes_where_is_asked_or_what_else_is_said(
    make: Make, endpoint: Endpoint, method: str
) -> None:
    tool = make("/echo?v=2", method=method, headers={"X-Fixed": "yes"})
    for text in HOSTILE:
        ask(tool, text)
    assert len(endpoint.asked) == len(HOSTILE)
    host = endpoint.url.removeprefix("http://")
    names = {"Host", "Accept", "Accept-Encoding", "Connection", "User-Agent", "X-Fixed"}
    names |= {"Content-Type", "Content-Length"} if method == "POST" else set()
    for text, (line, headers, body) in zip(HOSTILE, endpoint.asked, strict=True):
        verb, target, version = line.split(" ")
        path, _, query = target.partition("?")
        assert (verb, path, version) == (method, "/echo", "HTTP/1.1")
        assert headers["Host"] == host and set(headers) == names
        if method == "POST":
            assert query == "v=2" and json.loads(body) == {"q": text}
        else:
            assert parse_qs(query, keep_blank_values=True) == {"v": ["2"], "q": [text]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x" * 10_000_000, "more than 10000 bytes"),
        ("\u20ac" * 4000, "more than"),
        ("\ud800", "half"),
    ],
)
def test_what_is_too_large_or_no_text_is_not_sent(
    make: Make, endpoint: Endpoint, text: str, why: str
) -> None:
    result = ask(make(), text)
    assert result.status is ToolStatus.INVALID and why in (result.error or "")
    assert not endpoint.asked


def test_a_query_too_long_for_a_url_is_invalid(make: Make) -> None:
    result = ask(make(method="GET", max_input_bytes=100_000), "x" * 100_000)
    assert (result.status, result.error) == (ToolStatus.INVALID, "too long for a query")


@pytest.mark.parametrize(
    ("path", "status", "retryable", "error"),
    [
        ("/bad", "invalid", False, "status 400"),
        ("/status/413", "invalid", False, "status 413"),
        ("/status/414", "invalid", False, "status 414"),
        ("/status/422", "invalid", False, "status 422"),
        ("/status/402", "failed", False, "status 402"),
        ("/status/403", "failed", False, "status 403"),
        ("/absent", "failed", False, "status 404"),
        ("/status/405", "failed", False, "status 405"),
        ("/status/408", "failed", True, "status 408"),
        ("/status/425", "failed", True, "status 425"),
        ("/secret", "failed", False, "status 401: the credentials are missing or wrong"),
        ("/busy", "failed", True, "status 429"),
        ("/down", "failed", True, "status 503"),
        ("/html", "failed", False, "the answer is not JSON ('text/html')"),
        ("/torn", "failed", False, "the answer is not JSON ('application/json')"),
        ("/deep", "failed", False, "the answer is not JSON ('application/json')"),
        ("/latin", "failed", False, "the answer is not JSON ('application/json')"),
        ("/blank", "empty", False, "an empty answer"),
        ("/nothing", "empty", False, "nothing at data"),
        ("/echo", "failed", False, "data is a list, expected text or a number"),
        ("/bomb", "failed", False, "the answer is compressed, which was not asked for"),
    ],
)
def test_how_it_ends_when_there_is_no_answer(
    make: Make, path: str, status: str, retryable: bool, error: str
) -> None:
    result = ask(make(path, result="data"))
    assert (result.status, result.retryable, result.error) == (status, retryable, error)


def test_an_endpoint_may_mean_something_else_by_a_status(make: Make) -> None:
    statuses = {
        path: ask(make(path, invalid_statuses=[404])).status for path in ("/absent", "/bad")
    }
    assert statuses == {"/absent": ToolStatus.INVALID, "/bad": ToolStatus.FAILED}


@pytest.mark.parametrize(
    ("path", "where", "answer"),
    [
        ("/text", "data", "as text"),  # whatever it calls itself, it is JSON
        ("/number", "data", "3.10"),  # as it was written
        ("/number", "yes", "true"),
        ("/number", "nan", "NaN"),
        ("/number", "big", "1" + "0" * 5000),
        ("/whole", "", "all of it"),
        ("/echo", "data.0.text", "x"),
        ("/echo", "data.1.text", None),
        ("/echo", "data.-1.text", None),
        ("/echo", "data.0.text.more", None),
        ("/nothing", "blank", None),
        ("/nothing", "list.0", None),
    ],
)
def test_where_the_answer_is_read(make: Make, path: str, where: str, answer: str | None) -> None:
    result = ask(make(path, result=where))
    assert result.result == answer
    assert result.status == ("ok" if answer else "empty")


def test_a_failure_mends_itself(make: Make) -> None:
    tool = make("/flaky")
    results = tool.run([ToolRequest(input="x")] * 3)
    assert [result.retryable for result in results] == [True, True, False]
    assert results[2].result == "fine again"


@pytest.mark.parametrize("path", ["/redirect", "/redirect-post"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_redirect_is_not_followed(make: Make, endpoint: Endpoint, path: str, method: str) -> None:
    with serving() as other:
        for elsewhere in (other.url + "/echo", endpoint.url + "/echo"):
            endpoint.elsewhere = elsewhere
            result = ask(make(path, method=method))
            assert result.status is ToolStatus.FAILED and not result.retryable
            assert "redirects are not followed" in (result.error or "")
        assert not other.asked
    assert len(endpoint.asked) == 2


@pytest.mark.parametrize("path", ["/endless", "/endless-head"])
def test_an_endless_answer_is_left_after_its_bound(
    make: Make, endpoint: Endpoint, path: str
) -> None:
    result = ask(make(path, max_response_bytes=500_000))
    assert result.status is ToolStatus.FAILED
    if path == "/endless":
        assert result.error == "the answer has more than 500000 bytes"
    assert endpoint.hung_up.wait(10)
    assert endpoint.num_bytes_sent < 50_000_000  # what the sockets hold, not what it would send


@pytest.mark.parametrize("path", ["/slow", "/slow-head"])
def test_an_answer_that_trickles_is_left_in_time(make: Make, endpoint: Endpoint, path: str) -> None:
    result = ask(make(path, timeout_s=0.3))
    assert (result.status, result.retryable) == (ToolStatus.FAILED, True)
    assert result.error == "no answer in 0.3 s"
    assert endpoint.hung_up.wait(10)


def test_nobody_there_is_worth_asking_again(make: Make) -> None:
    result = ask(make(url="http://127.0.0.1:9/x"))
    assert (result.status, result.retryable) == (ToolStatus.FAILED, True)
    assert "ConnectError" in (result.error or "")


def test_no_answer_depends_on_an_earlier_one(make: Make) -> None:
    tool = make("/cookie", result="data")
    assert [ask(tool).result, ask(tool).result] == ["no cookie", "no cookie"]


def test_proxies_of_the_environment_are_not_asked(
    make: Make, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask(make()).result == "x"
        assert not proxy.asked


def test_https_is_asked_where_its_certificate_is_trusted(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not there")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving(context) as endpoint:
        result = ask(make(url=endpoint.url + "/echo"))
        assert result.status is ToolStatus.FAILED and "CERTIFICATE_VERIFY" in (result.error or "")
        assert not endpoint.asked
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(make(url=endpoint.url + "/echo")).result == "x"


def test_a_secret_is_sent_and_written_nowhere(
    make: Make,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(1)
    monkeypatch.setenv("ASK_KEY", "s3cr3t")
    tool = make(headers={"Authorization": "Bearer ${ASK_KEY}"})
    before = tool.version
    assert ask(tool).result == "x"
    assert endpoint.asked[0][1]["Authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in caplog.text + repr(vars(tool)) + tool.version
    monkeypatch.setenv("ASK_KEY", "another")
    assert make(headers={"Authorization": "Bearer ${ASK_KEY}"}).version == before


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_secret_argument_is_sent_and_written_nowhere(
    make: Make,
    endpoint: Endpoint,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
) -> None:
    caplog.set_level(1)
    monkeypatch.setenv("ASK_KEY", "s3cr3t")
    nested: dict[str, Any] = {"more": [{"key": "<${ASK_KEY}>"}]} if method == "POST" else {}
    tool = make(method=method, arguments={"api_key": "${ASK_KEY}", **nested})
    assert ask(tool, "${ASK_KEY}").status is ToolStatus.OK
    line, _, body = endpoint.asked[0]
    if method == "POST":
        sent = {"api_key": "s3cr3t", "more": [{"key": "<s3cr3t>"}], "q": "${ASK_KEY}"}
        assert json.loads(body) == sent
    else:
        assert "?api_key=s3cr3t&q=%24%7BASK_KEY%7D " in line
    assert "s3cr3t" not in caplog.text + tool.version


@pytest.mark.parametrize("value", [None, b"\xff"])
def test_an_argument_that_cannot_be_filled_in_is_named(
    make: Make, monkeypatch: pytest.MonkeyPatch, value: bytes | None
) -> None:
    monkeypatch.delenv("ASK_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("ASK_KEY", os.fsdecode(value))
    with pytest.raises(ConfigError, match=r"^tool Ask: option 'arguments': key"):
        make(arguments={"key": "${ASK_KEY}"}).load()


def test_a_name_that_is_no_secret_may_stand_there(make: Make) -> None:
    names = ("author", "keyword", "max_tokens", "Tokenizer", "X-Authority")
    make("/echo?author=x&max_tokens=3", arguments=dict.fromkeys(names, "x"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "ASK_KEY, which is not set where the tool runs"), ("a\r\nX: 1", "cannot be sent")],
)
def test_a_variable_that_cannot_be_sent_is_named_but_not_shown(
    make: Make, monkeypatch: pytest.MonkeyPatch, value: str | None, problem: str
) -> None:
    monkeypatch.delenv("ASK_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("ASK_KEY", value)
    tool = make(headers={"X-Api-Key": "${ASK_KEY}"})  # the driver need not have it
    with pytest.raises(ConfigError, match=problem) as error:
        tool.load()
    assert "X: 1" not in str(error.value)


def test_an_address_that_is_none_is_named_before_any_input(make: Make) -> None:
    tool = make(url="http://999.1.1.1/x")
    with pytest.raises(
        ConfigError, match=r"^tool Ask: option 'url' is 'http://999.1.1.1/x': Invalid IPv4"
    ):
        tool.load()


def test_building_and_loading_it_asks_nobody(endpoint: Endpoint, make: Make) -> None:
    make().load()
    assert not endpoint.asked
