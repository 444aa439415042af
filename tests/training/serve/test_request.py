import datetime as dt
import json
from typing import Any

import pytest

from training.generate.params import GenerationParams
from training.serve.errors import ApiError
from training.serve.limits import Limits
from training.serve.request import CompletionRequest, read_request

DEFAULTS = GenerationParams(max_new_tokens=7, api_top_k=3, stop=tuple("abcdef"))


def read(**given: Any) -> CompletionRequest:
    body = json.dumps({"model": "m", "prompt": "x", **given}).encode()
    return read_request(body, DEFAULTS, Limits(max_new_tokens=50, max_prompts=2))


def only_params(**given: Any) -> GenerationParams:
    [params] = read(**given).params
    return params


def test_what_is_not_given_or_null_is_as_the_configuration_says() -> None:
    assert only_params() == DEFAULTS
    nothing = dict.fromkeys(("max_tokens", "temperature", "stop", "date", "n", "stream", "user"))
    assert read(**nothing) == read()


def test_parameters_are_those_of_a_generation() -> None:
    params = only_params(
        max_tokens=50, temperature=1, top_p=0.5, seed=9, stop=["x", "y"], api_top_k=0,
        max_calls=4, max_call_tokens=5, interactive_search=True, date="2020-02-29",
    )  # fmt: skip
    assert params == GenerationParams(
        max_new_tokens=50, temperature=1.0, top_p=0.5, seed=9, stop=("x", "y"), api_top_k=0,
        max_calls=4, max_call_tokens=5, interactive_search=True, date=dt.date(2020, 2, 29),
    )  # fmt: skip
    assert only_params(stop="x").stop == ("x",)


def test_without_a_seed_each_text_is_drawn_anew() -> None:
    seeds = {
        params.seed for _ in range(4) for params in read(prompt=["a", "a"], temperature=1).params
    }
    assert len(seeds) == 8
    assert {params.seed for params in read(prompt=["a", "a"], temperature=1, seed=9).params} == {9}
    assert only_params(temperature=1, seed=0).seed == 0
    body = b'{"model": "m", "prompt": "x"}'
    configured = GenerationParams(temperature=1.0, seed=3)
    assert read_request(body, configured, Limits()).params == (configured,)


def test_one_prompt_is_a_list_of_one() -> None:
    assert read(prompt="a b").prompts == ("a b",)
    assert read(prompt=["a", ""]).prompts == ("a", "")


def test_what_changes_nothing_is_accepted() -> None:
    neutral = {"n": 1, "best_of": 1, "echo": False, "logit_bias": {}, "presence_penalty": 0.0}
    assert read(**neutral, frequency_penalty=0, suffix="", user="somebody") == read()


def test_usage_is_of_a_stream() -> None:
    assert not read(stream=True).include_usage
    asked = read(stream=True, stream_options={"include_usage": True})
    assert asked.stream and asked.include_usage
    assert read(stream=True, stream_options={"include_obfuscation": True}) == read(stream=True)


def test_as_many_stops_as_evaluations_of_code_have() -> None:
    stops = list("abcdefghijklmnop")
    assert only_params(stop=stops).stop == tuple(stops)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": ["a", "b", "c"]}, "prompt"),
        ({"model": 3}, "model"),
        ({"max_tokens": 51}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 5.5}, "max_tokens"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 10**40}, "seed"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": list("abcdefghijklmnopq")}, "stop"),
        ({"date": "monday"}, "date"),
        ({"date": 20200101}, "date"),
        ({"interactive_search": "yes"}, "interactive_search"),
        ({"max_calls": -1}, "max_calls"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"n": 2}, "n"),
        ({"suffix": "x"}, "suffix"),
        ({"presence_penalty": 0.1}, "presence_penalty"),
        ({"max_new_tokens": 5}, "max_new_tokens"),
        ({"top_k": 5}, "top_k"),
    ],
)
def test_the_parameter_that_is_wrong_is_named(given: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(**given)
    assert (caught.value.status, caught.value.error["param"]) == (400, param)
    assert str(caught.value).startswith(f"{param}: ")


@pytest.mark.parametrize(
    "body",
    [b"", b"[1]", b"nul", b"\xff", b'{"model": "m", "prompt": "\\ud800"}', b"[" * 10**5,
     b'{"model": "m", "prompt": "x", "temperature": NaN}'],
)  # fmt: skip
def test_what_is_no_json_object_is_refused_in_one_line(body: bytes) -> None:
    with pytest.raises(ApiError, match=r"^the body is not .*JSON.*$") as caught:
        read_request(body, DEFAULTS, Limits())
    assert caught.value.status == 400
