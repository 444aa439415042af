"""A hosted model under evaluation: what is asked, and what becomes of what goes wrong."""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import ValidationError

from tests.training.evaluate.answering import Answering, answering, completion
from tools.base import ConfigError, ToolformerError
from training.benchmarks.example import Example
from training.evaluate.endpoint import EndpointConfig, EndpointModel
from training.evaluate.models import Completion, Model
from training.generate.params import GenerationParams

KEY = "sk-secret-1234"
PARAMS = GenerationParams(max_new_tokens=5)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_KEY", f"{KEY}\n")


def config(url: str, **changes: Any) -> EndpointConfig:
    settings = {
        "url": url, "model": "m", "api_key_env": "HOSTED_KEY", "max_retries": 2,
        "usd_per_million_prompt_tokens": 2, "usd_per_million_new_tokens": 8,
    }  # fmt: skip
    return EndpointConfig.model_validate(settings | changes)


def asked_for(
    prompts: Sequence[str], params: GenerationParams = PARAMS
) -> list[tuple[Example, GenerationParams]]:
    return [
        (Example(id=prompt, prompt=prompt, answers=("x",), group="g"), params) for prompt in prompts
    ]


def answers(
    of: EndpointConfig, prompts: Sequence[str], params: GenerationParams = PARAMS
) -> list[Completion]:
    async def all_of_them() -> list[Completion]:
        async with EndpointModel(of) as model:
            one: Model = model
            found = [each async for each in one.answers(asked_for(prompts, params))]
            assert sorted(number for number, _ in found) == list(range(len(prompts)))
            return [completion for _, completion in sorted(found, key=lambda each: each[0])]

    return asyncio.run(all_of_them())


def echo(body: Mapping[str, Any], before: int) -> tuple[int, object]:
    return 200, completion(f" after {body['prompt']}")


def test_a_completion_is_greedy_and_has_what_the_server_counted() -> None:
    with answering(echo) as server:
        [got] = answers(config(server.url), ["one"])
    assert got == Completion(
        text=" after one",
        line={"finish_reason": "length", "prompt_tokens": 7, "new_tokens": 3},
    )
    assert server.bodies == [{"model": "m", "prompt": "one", "max_tokens": 5, "temperature": 0}]
    assert server.keys == {f"Bearer {KEY}"}


def test_a_text_ends_where_it_is_told_to() -> None:
    with answering(echo) as server:
        answers(config(server.url), ["one"], GenerationParams(stop=("\n",)))
    assert [body["stop"] for body in server.bodies] == [["\n"]]


def test_answers_keep_their_numbers_and_no_more_requests_are_in_flight_than_allowed() -> None:
    three_at_once = threading.Barrier(3)

    def slow_first(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        number = int(body["prompt"])
        if number < 3:
            three_at_once.wait(30)
        time.sleep(0.2 if number == 0 else 0.01)
        return echo(body, before)

    prompts = [str(number) for number in range(40)]
    with answering(slow_first) as server:
        got = answers(config(server.url, at_once=3), prompts)
    assert [one.text for one in got] == [f" after {prompt}" for prompt in prompts]
    assert server.most_in_flight == 3


def test_who_is_told_to_wait_asks_again() -> None:
    def busy_at_first(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        return (429, {"error": {"message": "slow down"}}) if before < 2 else echo(body, before)

    with answering(busy_at_first) as server:
        got = answers(config(server.url), ["one", "two"])
    assert [(one.text, one.error) for one in got] == [(" after one", None), (" after two", None)]
    assert (server.times("one"), server.times("two")) == (3, 3)


def test_what_stays_broken_is_the_error_of_its_example() -> None:
    failures: dict[str, tuple[int, object]] = {
        "broken": (500, {"error": {"message": f"no\nGPU for {KEY} left"}}),
        "too long": (400, {"error": {"message": "8000 tokens; 4096 at most"}}),
        "silent": (503, ""),
        "empty": (200, {**completion(""), "choices": []}),
    }

    def some_fail(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        return failures.get(body["prompt"]) or echo(body, before)

    with answering(some_fail) as server:
        got = answers(config(server.url), ["one", *failures, "two"])
    assert [one.text for one in got] == [" after one", None, None, None, None, " after two"]
    assert [one.error for one in got[1:5]] == [
        "HTTP 500: no GPU for *** left",
        "HTTP 400: 8000 tokens; 4096 at most",
        "HTTP 503",
        "the answer has no text",
    ]
    assert [server.times(prompt) for prompt in failures] == [3, 1, 3, 1]


def test_a_server_that_does_not_answer_in_time_leaves_an_error() -> None:
    may_answer = threading.Event()

    def waits(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        may_answer.wait(30)
        return echo(body, before)

    with answering(waits) as server:
        [got] = answers(config(server.url, timeout_s=0.05, max_retries=0), ["one"])
        may_answer.set()
    assert (got.text, got.error) == (None, "no answer within 0.05 s")


def always(status: int, said: object) -> Answering:
    return lambda body, before: (status, said)


@pytest.mark.parametrize(
    ("status", "said", "kind", "message"),
    [
        (401, {"error": {"message": f"wrong key {KEY}"}}, ConfigError,
         "401, the key is not accepted (api_key_env: HOSTED_KEY): wrong key ***"),
        (403, {"error": {"message": "not yours"}}, ConfigError,
         "403, the key is not allowed to use this model (api_key_env: HOSTED_KEY): not yours"),
        (402, {}, ConfigError, "402, it wants to be paid first"),
        (404, {"error": {"message": "no model m"}}, ConfigError,
         "404, no such address (most end in /v1), or no such model: no model m"),
        (429, {"error": {"message": "quota"}}, ToolformerError,
         "429, too many requests, or nothing is left to spend: quota; the same command goes on"),
        (200, "<html>Welcome</html>", ConfigError, "answers no JSON; is the address right (/v1)?"),
    ],
)  # fmt: skip
def test_what_every_request_would_be_answered_stops_the_run(
    status: int, said: object, kind: type[ToolformerError], message: str
) -> None:
    with answering(always(status, said)) as server, pytest.raises(ToolformerError) as caught:
        answers(config(server.url, at_once=2), [str(number) for number in range(50)])
    assert type(caught.value) is kind
    assert str(caught.value) == f"{server.url}, model m: {message}"
    assert len(server.bodies) < 30  # of 50, or 150 with those that are tried again


def test_a_server_that_is_not_there_stops_the_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    with pytest.raises(ToolformerError, match="cannot be reached: All connection attempts failed"):
        answers(config(url, max_retries=0), ["one"])


def test_who_takes_no_more_answers_asks_for_no_more() -> None:
    async def two(of: EndpointConfig) -> list[str | None]:
        prompts = [str(number) for number in range(100)]
        async with (
            EndpointModel(of) as model,
            aclosing(model.answers(asked_for(prompts))) as completions,
        ):
            taken = [(await anext(completions))[1].text for _ in range(2)]
            await asyncio.sleep(0.5)
            return taken

    with answering(echo) as server:
        assert len(asyncio.run(two(config(server.url, at_once=2)))) == 2
    assert len(server.bodies) <= 2 + 2  # those taken, and those in flight


@pytest.mark.parametrize(
    ("status", "said"), [(503, "{}"), (400, '{"error": {"message": "m is deprecated"}}')]
)
def test_a_server_that_fails_all_requests_stops_the_run(status: int, said: str) -> None:
    def two_then_none(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        return echo(body, before) if int(body["prompt"]) < 2 else (status, json.loads(said))

    with answering(two_then_none) as server, pytest.raises(ToolformerError) as caught:
        answers(config(server.url, at_once=1, max_retries=0), list(map(str, range(50))))
    assert f"10 requests in a row failed, the last with: HTTP {status}" in str(caught.value)
    assert str(caught.value).endswith("; the same command goes on")
    assert len(server.bodies) == 12


def test_prompts_that_are_refused_each_for_its_own_reason_stop_nothing() -> None:
    def too_long(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        return 400, {"error": {"message": f"{body['prompt']} tokens; 4096 at most"}}

    with answering(too_long) as server:
        got = answers(config(server.url), list(map(str, range(30))))
    assert got[29].error == "HTTP 400: 29 tokens; 4096 at most"


def test_half_of_a_character_is_an_error_of_its_prompt() -> None:
    with answering(echo) as server:
        got = answers(config(server.url), ["one", "half \ud83d"])
    assert [each.text for each in got] == [" after one", None]
    assert got[1].error == "the prompt is no text: it has half of a character"


def test_what_was_answered_is_not_lost_when_another_stops_the_run() -> None:
    failed = threading.Event()

    def first_fails(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        if body["prompt"] == "0":
            failed.wait(30)
            return 429, {}
        if body["prompt"] == "9":
            failed.set()
        return echo(body, before)

    async def until_it_stops(of: EndpointConfig) -> set[int]:
        got = set[int]()
        async with (
            EndpointModel(of) as model,
            aclosing(model.answers(asked_for(list(map(str, range(10)))))) as completions,
        ):
            with pytest.raises(ToolformerError, match="429"):
                async for number, _ in completions:
                    got.add(number)
        return got

    with answering(first_fails) as server:
        got = asyncio.run(until_it_stops(config(server.url, at_once=2, max_retries=0)))
    assert got >= set(range(1, 9))


@pytest.mark.parametrize("key", ["", " ", "sk-\u00e9", "sk-\nX"])
def test_a_key_that_is_none_is_an_error_before_anything_is_sent(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTED_KEY", key)
    with pytest.raises(ConfigError, match="HOSTED_KEY") as caught:
        EndpointModel(config("https://host.example/v1"))
    assert not key.strip() or key not in str(caught.value)
    monkeypatch.delenv("HOSTED_KEY")
    with pytest.raises(ConfigError, match="no key in the environment variable HOSTED_KEY"):
        EndpointModel(config("https://host.example/v1"))


def test_a_server_without_keys_is_sent_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with answering(echo) as server:
        answers(config(server.url, api_key_env=None), ["one"])
    assert KEY in os.environ["OPENAI_API_KEY"] and server.keys == {"Bearer none"}


def test_without_openai_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)  # as Python marks what cannot be imported
    with pytest.raises(ConfigError, match=r"needs openai: pip install '\.\[evaluate\]'"):
        EndpointModel(config("https://host.example/v1"))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"url": "host.example/v1"}, "expected an address like https://api.openai.com/v1"),
        ({"url": "ftp://host.example"}, "expected an address like"),
        ({"usd_per_million_new_tokens": -1}, "greater than or equal to 0"),
        ({"at_once": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        config(**({"url": "https://host.example/v1"} | changes))


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValidationError, match="holds a name or a password") as caught:
        config("https://me:hunter2@host.example/v1")
    assert "hunter2" not in caught.value.errors()[0]["msg"]
