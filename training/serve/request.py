"""A request of OpenAI's completions endpoint as prompts and decoding parameters.

What is not given is as the configuration's `decoding` says: greedy, where it says nothing, while
OpenAI's own default is to sample with temperature 1. Without a seed each text is drawn anew.
"""

import datetime as dt
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator
from pydantic_core import from_json

from training.generate.params import GenerationParams
from training.serve.errors import ApiError, wrong
from training.serve.limits import Limits

_MAX_STOPS = 16  # OpenAI's has 4, and evaluations of code ask for more

# Names of a request for what GenerationParams names; the second group is beyond OpenAI's.
_DECODING = {
    "max_tokens": "max_new_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
} | {
    name: name
    for name in ("api_top_k", "max_calls", "max_call_tokens", "interactive_search", "date")
}

# Parameters of OpenAI's that are only accepted where they change nothing. `user` may be anything:
# it tells a provider who asks.
_NEUTRAL: dict[str, Any] = {
    "n": 1,
    "best_of": 1,
    "echo": False,
    "logprobs": None,
    "suffix": "",
    "logit_bias": {},
    "frequency_penalty": 0,
    "presence_penalty": 0,
}


class StreamOptions(BaseModel):
    """How a stream is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    include_usage: bool = False
    include_obfuscation: bool = (
        False  # noise against who sees the lengths; there is none either way
    )


class _Asked(BaseModel):
    """What of a request is no decoding parameter."""

    model_config = ConfigDict(frozen=True)

    model: str
    prompt: tuple[str, ...]
    stream: bool = False
    stream_options: StreamOptions | None = None

    @field_validator("prompt", mode="before")
    @classmethod
    def _prompts_are_texts(cls, prompt: object) -> object:
        texts = [prompt] if isinstance(prompt, str) else prompt
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("a text or a list of texts; token ids are not supported")
        if not texts:
            raise ValueError("at least one text")
        return tuple(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """What is asked for; there are `params` for each prompt, and `include_usage` is of a stream."""

    model: str
    prompts: tuple[str, ...]
    params: tuple[GenerationParams, ...]
    stream: bool
    include_usage: bool


def read_request(body: bytes, defaults: GenerationParams, limits: Limits) -> CompletionRequest:
    """The request in a JSON body. A parameter that is null is as one that is not given.

    Raises:
        ApiError: 400: not JSON, or a parameter is unknown, not supported, wrong or over a limit;
            its name is in the error's `param`.
    """
    given = {name: value for name, value in _json_object(body).items() if value is not None}
    _check_supported(given)
    of_asked = {name: given[name] for name in _Asked.model_fields if name in given}
    with _naming_the_parameter():
        # As JSON: strictly, what is nested in it is no dictionary elsewhere.
        asked = _Asked.model_validate_json(json.dumps(of_asked), strict=True)
    if asked.stream_options is not None and not asked.stream:
        raise wrong("stream_options", "only where stream is true")
    if (number := len(asked.prompt)) > limits.max_prompts:
        raise wrong("prompt", f"{number} texts; {limits.max_prompts} at most")
    return CompletionRequest(
        model=asked.model,
        prompts=asked.prompt,
        params=_of_each_prompt(_params(given, defaults, limits), len(asked.prompt)),
        stream=asked.stream,
        include_usage=asked.stream_options is not None and asked.stream_options.include_usage,
    )


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        data = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ApiError(400, f"the body is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ApiError(400, "the body is not a JSON object")
    return data


def _check_supported(given: dict[str, Any]) -> None:
    known = {*_Asked.model_fields, *_DECODING, *_NEUTRAL, "user"}
    for name, value in given.items():
        if name not in known:
            raise wrong(name, "there is no such parameter", "unknown_parameter")
        if name in _NEUTRAL and value != _NEUTRAL[name]:
            only = _NEUTRAL[name]
            but = "" if only is None else f", except for {json.dumps(only)}"
            raise wrong(name, f"not supported{but}", "unsupported_parameter")


def _params(given: dict[str, Any], defaults: GenerationParams, limits: Limits) -> GenerationParams:
    changes = {ours: given[name] for name, ours in _DECODING.items() if name in given}
    if "stop" in changes:
        changes["stop"] = _stop(changes["stop"])
    if isinstance(day := changes.get("date"), str):
        with suppress(ValueError):  # what is no date is refused below
            changes["date"] = dt.date.fromisoformat(day)
    with _naming_the_parameter():
        said = defaults.model_dump(exclude_unset=True)  # a seed of 0 is one only where it is said
        params = GenerationParams.model_validate(said | changes, strict=True)
    if params.max_new_tokens > limits.max_new_tokens:
        raise wrong("max_tokens", f"{params.max_new_tokens}; {limits.max_new_tokens} at most")
    return params


def _of_each_prompt(params: GenerationParams, number: int) -> tuple[GenerationParams, ...]:
    if params.temperature == 0 or "seed" in params.model_fields_set:
        return (params,) * number
    return tuple(params.model_copy(update={"seed": secrets.randbits(63)}) for _ in range(number))


def _stop(given: object) -> tuple[str, ...]:
    stop = [given] if isinstance(given, str) else given
    if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
        raise wrong("stop", "a text or a list of texts")
    if len(stop) > _MAX_STOPS:
        raise wrong("stop", f"{len(stop)} texts; {_MAX_STOPS} at most")
    return tuple(stop)


@contextmanager
def _naming_the_parameter() -> Iterator[None]:
    """The first thing that is wrong, by the name that it has in a request."""
    try:
        yield
    except ValidationError as error:
        names = {ours: name for name, ours in _DECODING.items()}
        problem = error.errors()[0]
        first, *rest = map(str, problem["loc"])
        param = ".".join([names.get(first, first), *rest])
        raise wrong(param, problem["msg"].removeprefix("Value error, ")) from None
