"""A hosted model as one under evaluation: any endpoint that speaks OpenAI's completions."""

import asyncio
import importlib.util
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from pipeline.settings import Section
from tools.base import ConfigError, ToolformerError, one_line
from training.benchmarks.example import Example
from training.evaluate.models import Completion
from training.generate.params import GenerationParams

if TYPE_CHECKING:
    import openai  # loads here and not with this module, which is part of every configuration

_TOO_MANY = 10  # requests in a row that fail: then it is not for what they ask
_LONGEST_SAID = 200  # characters of what a server says
# What every other request would be answered, too.
_FOR_ALL = {
    401: "the key is not accepted",
    402: "it wants to be paid first",
    403: "the key is not allowed to use this model",
    404: "no such address (most end in /v1), or no such model",
    429: "too many requests, or nothing is left to spend",
}


class EndpointConfig(Section):
    """An endpoint, and what it costs; prices of 0 for a server of one's own.

    `url` is what OpenAI's clients call the base URL. The key is in the environment variable
    `api_key_env`; without one none is sent. `tokenizer`, a directory or a name on the Hub, counts
    the tokens of prompts before anything is sent; without one they are estimated.
    """

    url: str
    model: str
    api_key_env: str | None = None
    usd_per_million_prompt_tokens: float = Field(ge=0.0, allow_inf_nan=False)
    usd_per_million_new_tokens: float = Field(ge=0.0, allow_inf_nan=False)
    tokenizer: str | None = None
    at_once: int = Field(default=8, ge=1)  # requests in flight
    max_retries: int = Field(default=5, ge=0)  # of a request: after 0.5 s, 1 s, ... 8 s
    timeout_s: float = Field(default=120.0, gt=0.0)  # of each try

    @field_validator("url")
    @classmethod
    def _an_address_without_secrets(cls, url: str) -> str:
        parts = urlsplit(url)
        if "@" in parts.netloc:  # not repeated: results name the URL, and errors are logged
            raise ValueError("holds a name or a password; expected a key in api_key_env")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: expected an address like https://api.openai.com/v1")
        return url


class EndpointModel:
    """See training.evaluate.models.Model. Its texts are greedy, and nothing calls a tool.

    async with EndpointModel(config) as model:
        async for number, completion in model.answers(asked):
            ...
    """

    def __init__(self, config: EndpointConfig) -> None:
        """Nothing is sent yet.

        Raises:
            ConfigError: openai is not installed, or there is no key.
        """
        if importlib.util.find_spec("openai") is None:
            raise ConfigError("a model behind an endpoint needs openai: pip install '.[evaluate]'")
        self._config = config
        self._key = _key(config)
        self._failed = list[str]()  # how the last requests did, since one was answered

    async def __aenter__(self) -> "EndpointModel":
        from openai import AsyncOpenAI

        for client in ("httpx", "httpx2"):  # they log every request
            logging.getLogger(client).setLevel(logging.WARNING)
        config = self._config
        self._client = AsyncOpenAI(
            base_url=config.url,
            api_key=self._key or "none",
            max_retries=config.max_retries,
            timeout=config.timeout_s,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def answers(
        self, asked: Sequence[tuple[Example, GenerationParams]]
    ) -> AsyncGenerator[tuple[int, Completion], None]:
        """The completion of each prompt as soon as it is there, with the prompt's number.

        At most `at_once` requests are in flight. One that fails as often as it may be tried has an
        error in its place.

        Raises:
            ConfigError: the endpoint does not let us in, or has no such model.
            ToolformerError: it cannot be reached, answers nothing more for now, or request after
                request fails.
        """
        waiting, running = iter(enumerate(asked)), dict[asyncio.Task[Completion], int]()
        try:
            while True:
                for number, (example, params) in islice(
                    waiting, self._config.at_once - len(running)
                ):
                    answer = self._answer(example.prompt, params)
                    running[asyncio.create_task(answer)] = number
                if not running:
                    return
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                # What was answered, and paid for, goes before what ends all.
                for task in sorted(done, key=lambda task: task.exception() is not None):
                    completion = task.result()
                    yield running.pop(task), completion
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _answer(self, prompt: str, params: GenerationParams) -> Completion:
        import openai

        try:
            answer = await self._client.completions.create(
                model=self._config.model,
                prompt=prompt,
                max_tokens=params.max_new_tokens,
                temperature=0,
                extra_body={"stop": list(params.stop)} if params.stop else None,
            )
        except UnicodeEncodeError:
            return Completion(text=None, error="the prompt is no text: it has half of a character")
        except openai.APIStatusError as error:
            return self._refused(error)
        except openai.APITimeoutError:
            return self._error(f"no answer within {self._config.timeout_s:g} s", "server")
        except openai.APIConnectionError as error:
            said = self._without_key(one_line(error.__cause__ or error))
            raise ToolformerError(f"{self._where}: cannot be reached: {said}") from None
        self._failed.clear()
        if not isinstance(answer, openai.types.Completion):
            raise ConfigError(f"{self._where}: answers no JSON; is the address right (/v1)?")
        return _completion(answer)

    def _refused(self, error: "openai.APIStatusError") -> Completion:
        """The error in the place of a completion; raised where it is one of all requests."""
        status, said = error.status_code, self._said(error)
        if status == 429:
            raise ToolformerError(
                f"{self._where}: 429, {_FOR_ALL[429]}{said}; the same command goes on"
            )
        if status in _FOR_ALL:
            key = f" (api_key_env: {self._config.api_key_env})" if status in (401, 403) else ""
            raise ConfigError(f"{self._where}: {status}, {_FOR_ALL[status]}{key}{said}")
        told = f"HTTP {status}{said}"
        # Of a prompt that is refused for a reason of its own, as its length, its own is said.
        return self._error(told, "server" if status >= 500 else told)

    def _error(self, told: str, how: str) -> Completion:
        """The error in the place of a completion; raised where one after the other fails alike."""
        if how not in self._failed:
            self._failed.clear()
        self._failed.append(how)
        if len(self._failed) >= _TOO_MANY:
            raise ToolformerError(
                f"{self._where}: {_TOO_MANY} requests in a row failed, the last with: {told}; the "
                "same command goes on"
            )
        return Completion(text=None, error=told)

    @property
    def _where(self) -> str:
        return f"{self._config.url}, model {self._config.model}"

    def _said(self, error: "openai.APIStatusError") -> str:
        """What the server says, in one line; nothing where it says nothing."""
        body: Any = error.body
        message = body.get("message") if isinstance(body, dict) else body
        if not isinstance(message, str) or not message.strip():
            return ""
        return ": " + " ".join(self._without_key(message).split())[:_LONGEST_SAID]

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def _key(config: EndpointConfig) -> str | None:
    if config.api_key_env is None:
        return None
    key = os.environ.get(config.api_key_env, "").strip()
    if not key:
        raise ConfigError(f"{config.url}: no key in the environment variable {config.api_key_env}")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{config.url}: what is in {config.api_key_env} cannot be a key")
    return key


def _completion(answer: "openai.types.Completion") -> Completion:
    """What a server answered, with the tokens it counted. Servers leave out what they like."""
    choice = answer.choices[0] if answer.choices else None
    text: str | None = getattr(choice, "text", None)
    if text is None:
        return Completion(text=None, error="the answer has no text")
    line: dict[str, Any] = {"finish_reason": getattr(choice, "finish_reason", None)}
    if answer.usage is not None:
        line["prompt_tokens"] = answer.usage.prompt_tokens
        line["new_tokens"] = answer.usage.completion_tokens
    return Completion(text=text, line=line)
