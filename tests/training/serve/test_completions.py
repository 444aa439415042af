"""What OpenAI's own client gets from the endpoint."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types import Completion

from tests.training.serve.calling_model import (
    COINS,
    PLAIN,
    SUM,
    TODAY,
    calling,
    calling_model,
    config,
)
from tests.training.serve.serving import PATIENCE_S, Loaded, Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    loaded = Loaded(config(calling_model(directory / "model"), directory / "gate"))
    try:
        with loaded.serve() as served:
            yield served
    finally:
        loaded.close()


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[OpenAI]:
    with served.client() as client:
        yield client


def only_choice(completion: Completion) -> Any:
    """Its one choice, of which OpenAI's types do not know all."""
    [choice] = completion.choices
    return choice


def test_a_completion_reports_the_call_that_was_made_in_it(client: OpenAI) -> None:
    completion = client.completions.create(model="demo", prompt=SUM)
    choice = only_choice(completion)
    assert choice.text == " The sailor went home."
    assert choice.annotated_text == " [Calculator(95 + 86) -> 181] The sailor went home."
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "stop", None)
    [call] = choice.tool_calls
    assert call["type"] == "function" and call["id"].startswith("call-")
    assert call["function"] == {"name": "Calculator", "arguments": '{"input": "95 + 86"}'}
    assert (call["result"], call["status"], call["error"]) == ("181", "ok", None)
    assert (call["offset"], call["triggered"], call["page"]) == (0, False, 0)
    assert call["seconds"] >= 0
    assert completion.id.startswith("cmpl-")
    assert (completion.object, completion.model) == ("text_completion", "demo")


def test_usage_counts_what_was_decoded_and_beside_it_what_was_inserted(client: OpenAI) -> None:
    called = client.completions.create(model="demo", prompt=SUM).usage
    without = client.completions.create(model="demo", prompt=PLAIN, max_tokens=2).usage
    assert called is not None and without is not None
    assert called.total_tokens == called.prompt_tokens + called.completion_tokens
    assert called.model_extra == {"inserted_tokens": 4}  # " 1", "8", "1" and "]"
    assert without.model_extra == {"inserted_tokens": 0}
    assert (without.prompt_tokens, without.total_tokens) == (4, 6)


def test_a_stream_says_the_same_piece_by_piece(client: OpenAI) -> None:
    whole = client.completions.create(model="demo", prompt=SUM)
    with client.completions.create(
        model="demo", prompt=SUM, stream=True, stream_options={"include_usage": True}
    ) as stream:
        *chunks, last = list(stream)
    assert {chunk.id for chunk in chunks} == {last.id}
    choices = [only_choice(chunk) for chunk in chunks]
    assert "".join(choice.text for choice in choices) == only_choice(whole).text
    assert len([choice for choice in choices if choice.text]) > 1
    assert [choice.finish_reason for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert choices[-1].annotated_text == only_choice(whole).annotated_text

    [started], [ended] = [c.tool_calls for c in choices if hasattr(c, "tool_calls")]
    assert "result" not in started and started["id"] == ended["id"]
    assert started["function"] == {"name": "Calculator", "arguments": '{"input": "95 + 86"}'}
    expected = only_choice(whole).tool_calls[0]
    assert {**ended, "id": 0, "seconds": 0} == {**expected, "id": 0, "seconds": 0}

    assert last.choices == [] and last.usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks)


def test_a_stream_ends_with_done_and_without_usage_that_nobody_asked_for(served: Served) -> None:
    body = {"model": "demo", "prompt": PLAIN, "stream": True}
    answer = httpx.post(f"{served.url}/completions", json=body, timeout=PATIENCE_S)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done, nothing = answer.text.split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert all(chunk["choices"] and "usage" not in chunk for chunk in chunks)


def test_many_prompts_are_answered_in_their_order(client: OpenAI) -> None:
    prompts = [TODAY, SUM, PLAIN]
    alone = [client.completions.create(model="demo", prompt=prompt) for prompt in prompts]
    together = client.completions.create(model="demo", prompt=prompts)
    assert [choice.index for choice in together.choices] == [0, 1, 2]
    assert [choice.text for choice in together.choices] == [only_choice(a).text for a in alone]
    assert together.usage is not None
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "inserted_tokens"):
        assert getattr(together.usage, name) == sum(getattr(a.usage, name) for a in alone)

    texts = ["", "", ""]
    ends = []
    with client.completions.create(model="demo", prompt=prompts, stream=True) as stream:
        for chunk in stream:
            choice = only_choice(chunk)
            texts[choice.index] += choice.text
            ends += [choice.index] if choice.finish_reason else []
    assert texts == [choice.text for choice in together.choices]
    assert sorted(ends) == [0, 1, 2]


def test_the_asynchronous_client_gets_the_same(served: Served, client: OpenAI) -> None:
    async def asked() -> tuple[Completion, str]:
        async with AsyncOpenAI(base_url=served.url, api_key="none", max_retries=0) as client:
            whole = await client.completions.create(model="demo", prompt=COINS)
            stream = await client.completions.create(model="demo", prompt=COINS, stream=True)
            async with stream:
                return whole, "".join([only_choice(chunk).text async for chunk in stream])

    whole, streamed = asyncio.run(asked())
    expected = client.completions.create(model="demo", prompt=COINS)
    assert only_choice(whole).text == streamed == only_choice(expected).text
    assert only_choice(whole).tool_calls[0]["result"] == "605"
    assert only_choice(whole).tool_calls[0]["triggered"]


def test_what_a_request_may_say_reaches_the_generation(client: OpenAI) -> None:
    def text(prompt: str, **beyond: Any) -> Any:
        return only_choice(
            client.completions.create(model="demo", prompt=prompt, extra_body=beyond)
        )

    today = text(TODAY, date="2020-01-01")
    assert today.tool_calls[0]["result"] == "Today is Wednesday, January 1, 2020."
    assert today.finish_reason == "length"
    assert text(TODAY, max_calls=0).tool_calls == []
    assert text(COINS, api_top_k=1).tool_calls == []
    assert text(SUM, max_call_tokens=2).tool_calls == []
    assert text(SUM, stop="sailor").text == " The "
    assert text(SUM, stop=["went", "sailor"]).text == " The "
    draws = {text(PLAIN, temperature=1, seed=seed).text for seed in range(8)}
    assert len(draws) > 1
    assert text(PLAIN, temperature=1, seed=3).text == text(PLAIN, temperature=1, seed=3).text
    drawn = client.completions.create(model="demo", prompt=[PLAIN] * 8, temperature=1)
    assert len({choice.text for choice in drawn.choices}) > 1
    assert text(PLAIN, temperature=2, top_p=1e-9).text == text(PLAIN).text


def test_a_client_that_says_all_of_openais_defaults_is_answered(client: OpenAI) -> None:
    whole = client.completions.create(
        model="demo", prompt=SUM, best_of=1, echo=False, frequency_penalty=0, logit_bias={},
        logprobs=None, max_tokens=16, n=1, presence_penalty=0, seed=None, stop=None, stream=False,
        stream_options=None, suffix=None, temperature=0, top_p=1, user="somebody",
        extra_headers={"OpenAI-Organization": "x"}, extra_query={"api-version": "1"},
    )  # fmt: skip
    assert only_choice(whole).text == " The sailor went home."


def test_a_tool_that_is_not_there_is_said_in_the_response(client: OpenAI) -> None:
    prompt = calling("WikiSearch", "The town of Belmar lies on the river")
    [call] = only_choice(client.completions.create(model="demo", prompt=prompt)).tool_calls
    assert (call["function"]["name"], call["status"], call["result"]) == (
        "WikiSearch", "invalid", "",
    )  # fmt: skip
    assert call["error"].endswith("there are Calculator, Calendar")


def test_the_model_and_the_health_are_told(served: Served, client: OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object) == ("demo", "model")
    assert client.models.retrieve("demo") == model
    assert served.health() == {"status": "ok", "running": 0, "waiting": 0}


@pytest.mark.parametrize(
    ("wrong", "param"),
    [
        ({"n": 2}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"logprobs": 1}, "logprobs"),
        ({"suffix": "x"}, "suffix"),
        ({"echo": True}, "echo"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": [[1, 2]]}, "prompt"),
        ({"prompt": PLAIN * 500}, "prompt"),
        ({"prompt": [PLAIN, PLAIN * 500], "stream": True}, "prompt"),
        ({"temperature": 3}, "temperature"),
        ({"extra_body": {"top_k": 5}}, "top_k"),
    ],
)
def test_a_wrong_parameter_is_named(client: OpenAI, wrong: dict[str, Any], param: str) -> None:
    asked: dict[str, Any] = {"model": "demo", "prompt": PLAIN, **wrong}
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(**asked)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"
    assert "\n" not in caught.value.message


def test_another_model_is_not_found(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="'demo'") as caught:
        client.completions.create(model="gpt-4", prompt=PLAIN)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError, match="'openai/gpt-4'") as caught:
        client.models.retrieve("openai/gpt-4")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/chat/completions", 404),
        ("POST", "/v1/completions/", 404),
        ("GET", "/docs", 404),
        ("GET", "/openapi.json", 404),
        ("OPTIONS", "/v1/completions", 405),  # no page of elsewhere may ask
    ],
)
def test_what_is_not_there_is_an_error_in_openais_form(
    served: Served, method: str, path: str, status: int
) -> None:
    answer = httpx.request(method, served.url.replace("/v1", path), timeout=PATIENCE_S)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert "access-control-allow-origin" not in answer.headers
