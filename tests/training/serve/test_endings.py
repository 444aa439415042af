"""How requests end that do not come to their own end, and who may ask at all."""

import asyncio
import datetime as dt
import itertools
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import httpx2  # what OpenAI's client is built on
import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI
from openai.types import Completion

from tests.training.serve.calling_model import COINS, PLAIN, SUM, TODAY, calling_model, config
from tests.training.serve.serving import (
    NOT_TAKEN,
    PATIENCE_S,
    SOON_S,
    Loaded,
    Served,
    wait_until,
)

KEY = "sk-test-of-serving"
_DAYS = itertools.count()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("endings")


@pytest.fixture(scope="module")
def loaded(directory: Path) -> Iterator[Loaded]:
    loaded = Loaded(config(calling_model(directory / "model"), directory / "gate"))
    yield loaded
    loaded.close()


@pytest.fixture
def gate(directory: Path) -> Iterator[Path]:
    """While this file is there, the Calculator gives no answer."""
    gate = directory / "gate"
    gate.touch()
    yield gate
    gate.unlink(missing_ok=True)


def post(served: Served, body: bytes | Iterator[bytes], **headers: str) -> httpx.Response:
    """An answer to a body as it is."""
    told = {"content-type": "application/json"} | headers
    url = f"{served.url}/completions"
    return httpx.post(url, content=body, headers=told, timeout=PATIENCE_S)


def connected(served: Served) -> socket.socket:
    """A connection on which nothing was sent."""
    host, port = served.url.removeprefix("http://").removesuffix("/v1").split(":")
    return socket.create_connection((host, int(port)), timeout=SOON_S)


def another_day() -> dict[str, str]:
    """What else a request says whose calls nobody has made before."""
    return {"date": (dt.date(2020, 1, 1) + dt.timedelta(next(_DAYS))).isoformat()}


def ask(served: Served, prompt: str = SUM, *, timeout_s: float = SOON_S) -> Completion:
    with served.client() as client:
        return client.completions.create(
            model="demo", prompt=prompt, extra_body=another_day(), timeout=timeout_s
        )


def begin(client: OpenAI, *prompts: str) -> openai.Stream[Completion]:
    return client.completions.create(
        model="demo", prompt=prompts, stream=True, extra_body=another_day()
    )


def calls_of(chunk: Completion) -> list[dict[str, Any]]:
    return list(getattr(chunk.choices[0], "tool_calls", []))


def error_of(answer: httpx.Response) -> dict[str, Any]:
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "\n" not in error["message"]
    return dict(error)


def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(loaded: Loaded) -> None:
    with loaded.serve(max_body_bytes=1000) as served:
        for size in (1001, 1 << 22):
            body = b'{"model": "demo", "prompt": "' + b"x" * size
            chunks = (body[at : at + 4096] for at in range(0, len(body), 4096))
            for sent in (body, chunks):
                answer = post(served, sent)
                assert answer.status_code == 413
                assert "1,000 bytes" in error_of(answer)["message"]
        small = b'{"model": "demo", "prompt": "The sum of", "max_tokens": 1}'
        whole = small + b" " * (1000 - len(small))
        assert post(served, whole).status_code == 200
        assert post(served, iter([whole[:7], whole[7:]])).status_code == 200
        assert post(served, whole + b" ").status_code == 413


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"[" * 100_000, b"\xff\xfe", b"nul"])
def test_a_body_that_is_no_request_is_refused(loaded: Loaded, body: bytes) -> None:
    with loaded.serve() as served:
        answer = post(served, body)
    assert answer.status_code == 400
    assert "JSON" in error_of(answer)["message"]


def test_a_body_of_another_kind_is_refused(loaded: Loaded) -> None:
    # A web page may send it to this machine without asking.
    body = b'{"model": "demo", "prompt": "x"}'
    with loaded.serve() as served:
        answer = post(served, body, **{"content-type": "text/plain"})
    assert answer.status_code == 415
    assert error_of(answer)["code"] == "unsupported_media_type"


def test_a_body_that_does_not_come_is_not_waited_for(loaded: Loaded) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with loaded.serve(timeout_s=0.2) as served, connected(served) as connection:
        connection.sendall(head + b"content-length: 10\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_does_not_come_is_not_waited_for(loaded: Loaded) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with loaded.serve(timeout_s=0.2) as served:
        for at_first in (b"", request[:20]):
            with connected(served) as connection:
                connection.sendall(at_first)
                assert connection.recv(100) == b""
        with connected(served) as connection:
            for _ in range(2):
                connection.sendall(request)
                answer = b""
                while not answer.endswith(b"}"):
                    answer += connection.recv(1000)
                    assert answer.startswith(b"HTTP/1.1 200 ")
                time.sleep(0.4)  # between requests there is more time
            connection.sendall(request[:20])
            assert connection.recv(100) == b""


def test_connections_beyond_the_bound_are_told_to_come_again(loaded: Loaded) -> None:
    with loaded.serve(max_connections=2) as served, connected(served):
        with connected(served):
            answer = post(served, b"{}")
            assert answer.status_code == 429
            assert error_of(answer)["code"] == "rate_limit_exceeded"
            assert answer.headers["retry-after"] == "1"
            assert answer.headers["connection"] == "close"
        wait_until(lambda: post(served, b"{}").status_code == 400)


def test_tokens_and_prompts_are_bounded(loaded: Loaded) -> None:
    with loaded.serve(max_new_tokens=20, max_prompts=2) as served, served.client() as client:
        with pytest.raises(openai.BadRequestError, match="20 at most") as caught:
            client.completions.create(model="demo", prompt=PLAIN, max_tokens=21)
        assert caught.value.param == "max_tokens"
        with pytest.raises(openai.BadRequestError, match="2 at most") as caught:
            client.completions.create(model="demo", prompt=[PLAIN] * 3)
        assert caught.value.param == "prompt"
        most = client.completions.create(model="demo", prompt=[PLAIN] * 2, max_tokens=20)
        assert len(most.choices) == 2


def test_a_key_is_asked_for_except_of_the_health(loaded: Loaded) -> None:
    wrong = [f"Bearer {key}" for key in ("none", KEY[:-1], KEY + "x", "schl\u00fcssel")]
    with loaded.serve(key=KEY) as served:
        for shown in (None, KEY, f"Basic {KEY}", "Bearer", *wrong):
            headers = [] if shown is None else [(b"authorization", shown.encode())]
            answer = httpx.get(f"{served.url}/models", headers=headers, timeout=PATIENCE_S)
            assert answer.status_code == 401
            assert error_of(answer)["code"] == "invalid_api_key"
            assert KEY not in answer.text
        with served.client("another") as client, pytest.raises(openai.AuthenticationError):
            client.completions.create(model="demo", prompt=PLAIN)
        with served.client(KEY) as client:
            assert client.models.list().data[0].id == "demo"
            assert client.completions.create(model="demo", prompt=PLAIN, max_tokens=1).choices
        assert served.health()["status"] == "ok"


def test_without_a_key_it_is_asked_by_a_name_of_this_machine(loaded: Loaded) -> None:
    def asked(host: str, key: str = "none") -> httpx.Response:
        headers = {"host": host, "authorization": f"Bearer {key}"}
        return httpx.get(f"{served.url}/models", headers=headers, timeout=PATIENCE_S)

    with loaded.serve() as served:
        for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "127.9.9.9", "[::1]", "[::1]:7"):
            assert asked(host).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example:80", "192.0.2.1", "[::1", "", "::1"):
            answer = asked(host)
            assert answer.status_code == 403
            assert error_of(answer)["code"] == "host_not_allowed"
    with loaded.serve(key=KEY) as served:
        assert asked("of.a.proxy.example", KEY).status_code == 200


def test_a_request_that_takes_too_long_is_ended(loaded: Loaded, gate: Path) -> None:
    with loaded.serve(timeout_s=1.0) as served:
        with pytest.raises(openai.InternalServerError, match="within 1 s") as caught:
            ask(served)
        assert (caught.value.status_code, caught.value.code) == (504, "timeout")
        served.wait_until(running=0)


def test_nothing_runs_for_a_client_that_is_gone(loaded: Loaded, gate: Path) -> None:
    with loaded.serve(max_running=1) as served:
        with served.client() as client, begin(client, SUM) as stream:
            assert next(filter(calls_of, stream))
            assert served.health()["running"] == 1
        served.wait_until(running=0)  # the Calculator has not answered

        with pytest.raises(openai.APITimeoutError):
            ask(served, timeout_s=1.0)
        served.wait_until(running=0)

        # One that is gone while it waits was never there for those behind it.
        with ThreadPoolExecutor() as threads:
            first = threads.submit(ask, served)
            served.wait_until(running=1)
            with pytest.raises(openai.APITimeoutError):
                ask(served, timeout_s=0.5)
            served.wait_until(running=1, waiting=0)
            last = threads.submit(ask, served, PLAIN)
            served.wait_until(running=1, waiting=1)
            gate.unlink()
            assert first.result().choices and last.result().choices


def test_requests_beyond_the_bound_are_told_to_come_again(loaded: Loaded, gate: Path) -> None:
    def one() -> Completion | openai.RateLimitError:
        try:
            return ask(served)
        except openai.RateLimitError as error:
            return error

    with (
        loaded.serve(max_running=2, max_waiting=3) as served,
        ThreadPoolExecutor(max_workers=12) as threads,
    ):
        asked = [threads.submit(one) for _ in range(12)]
        wait_until(lambda: sum(each.done() for each in asked) == 7)
        served.wait_until(running=2, waiting=3)
        refused = [each.result() for each in asked if each.done()]
        gate.unlink()
        answered = [each.result() for each in asked if each.result() not in refused]
    for error in refused:
        assert isinstance(error, openai.RateLimitError)
        assert error.response.headers["retry-after"] == "1"
        assert error.code == "rate_limit_exceeded"
    assert len(answered) == 5
    assert all(isinstance(each, Completion) and "181" in str(each) for each in answered)


def test_a_server_that_is_told_to_end_lets_finish_what_runs(loaded: Loaded, gate: Path) -> None:
    with loaded.serve(max_running=1) as served, ThreadPoolExecutor() as threads:
        running = threads.submit(ask, served)
        served.wait_until(running=1)
        waiting = threads.submit(ask, served, PLAIN)
        served.wait_until(waiting=1)
        served.end()
        with pytest.raises(openai.InternalServerError, match="is ending") as caught:
            waiting.result()
        assert caught.value.status_code == 503
        with pytest.raises(NOT_TAKEN):
            ask(served, PLAIN)
        assert not running.done() and not served.has_ended()
        gate.unlink()
        assert running.result().choices[0].finish_reason == "stop"
        wait_until(served.has_ended)


def test_what_runs_longer_than_the_grace_is_told_so_in_its_stream(
    loaded: Loaded, gate: Path
) -> None:
    with (
        loaded.serve(grace_s=0.2) as served,
        served.client() as client,
        begin(client, PLAIN, SUM) as stream,
    ):
        [started] = calls_of(next(filter(calls_of, stream)))
        assert "result" not in started
        served.end()
        with pytest.raises(openai.APIError, match="is ending") as caught:
            list(stream)
        assert type(caught.value) is openai.APIError  # not one of a status: that was 200
        assert caught.value.code == "ending"
        wait_until(served.has_ended)


def test_sixty_four_requests_over_eight_connections_get_what_each_gets_alone(
    loaded: Loaded,
) -> None:
    cases = list(itertools.product((SUM, COINS, TODAY, PLAIN), (0, 1, 10), (4, 8)))
    asked = [
        {
            "model": "demo",
            "prompt": prompt,
            "max_tokens": max_tokens,
            "stream": number % 2 == 1,
            "extra_body": {"api_top_k": api_top_k, "date": "2020-01-01"},
        }
        for number, (prompt, api_top_k, max_tokens) in zip(
            range(64), itertools.cycle(cases), strict=False
        )
    ]

    async def text(client: AsyncOpenAI, params: dict[str, Any]) -> str:
        """What is generated, with its calls."""
        answer = await client.completions.create(**params)
        if isinstance(answer, Completion):
            choice: Any = answer.choices[0]
        else:
            choice = [chunk async for chunk in answer][-1].choices[0]
        return str(choice.annotated_text)

    async def all_texts(served: Served) -> tuple[list[str], list[str]]:
        connections = DefaultAsyncHttpxClient(limits=httpx2.Limits(max_connections=8))
        async with AsyncOpenAI(
            base_url=served.url, api_key="none", max_retries=0, http_client=connections
        ) as client:
            alone = [await text(client, params) for params in asked[: len(cases)]]
            together = await asyncio.gather(*(text(client, params) for params in asked))
        return alone, list(together)

    with loaded.serve(max_running=4, max_waiting=60) as served:
        alone, together = asyncio.run(all_texts(served))
        assert served.health() == {"status": "ok", "running": 0, "waiting": 0}
    assert len(together) == 64
    assert together == [text for _, text in zip(range(64), itertools.cycle(alone), strict=False)]
    assert any("Calculator(95 + 86) -> 181]" in text for text in together)
