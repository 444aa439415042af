"""A model behind our own server answers what the same model answers here."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.training.serve.calling_model import COINS, PLAIN, SUM, calling_model, config
from tests.training.serve.serving import PATIENCE_S
from tools.base import ConfigError
from training.benchmarks.example import Example
from training.evaluate.endpoint import EndpointConfig, EndpointModel
from training.evaluate.models import Completion
from training.generate.generator import Generator
from training.generate.params import GenerationParams
from training.serve.keys import ApiKey
from training.serve.limits import Limits
from training.serve.listening import bind, url_of
from training.serve.server import CompletionServer

KEY = "sk-of-the-server"
PROMPTS = (COINS, SUM, PLAIN, "Today is")
PARAMS = GenerationParams(max_new_tokens=12)


@asynccontextmanager
async def served(generator: Generator) -> AsyncGenerator[EndpointConfig, None]:
    """The endpoint of a generator that has become a server, too."""
    bound, ready = bind("127.0.0.1", 0, None), asyncio.Event()
    server = CompletionServer(
        generator, model="demo", limits=Limits(), key=ApiKey(KEY), grace_s=PATIENCE_S,
        ready=ready.set,
    )  # fmt: skip
    running = asyncio.create_task(server.serve(sockets=[bound]))
    await asyncio.wait_for(ready.wait(), PATIENCE_S)
    try:
        yield EndpointConfig(
            url=url_of(bound), model="demo", api_key_env="SERVED_KEY", timeout_s=PATIENCE_S,
            usd_per_million_prompt_tokens=0, usd_per_million_new_tokens=0,
        )  # fmt: skip
    finally:
        server.end()
        await running


async def answers(of: EndpointConfig, *prompts: str) -> list[Completion]:
    asked = [(Example(id=p, prompt=p, answers=("x",), group="g"), PARAMS) for p in prompts]
    async with EndpointModel(of) as model:
        found = [each async for each in model.answers(asked)]
    return [completion for _, completion in sorted(found, key=lambda each: each[0])]


@pytest.mark.parametrize("disabled", [False, True])
def test_its_texts_are_those_of_the_model_itself(
    disabled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(calling_model(tmp_path / "model"), tmp_path / "gate")
    if disabled:
        never = {"tools": {}, "decoding": GenerationParams(api_top_k=0)}
        settings = settings.model_copy(update=never)
    monkeypatch.setenv("SERVED_KEY", KEY)

    async def both_ways() -> None:
        async with Generator(settings) as generator, served(generator) as endpoint:
            params = generator.defaults.model_copy(update={"max_new_tokens": 12})
            here = [await generator.generate(prompt, params) for prompt in PROMPTS]
            assert [bool(one.calls) for one in here[:2]] == [not disabled] * 2
            *got, too_long = await answers(endpoint, *PROMPTS, PLAIN * 500)
            assert [one.text for one in got] == [one.text for one in here]
            assert [one.error for one in got] == [None] * len(PROMPTS)
            assert (got[3].line["finish_reason"], got[3].line["new_tokens"]) == ("length", 12)
            assert (too_long.error or "").startswith("HTTP 400: the prompt is too long: 2000")
            if not disabled:
                return
            with pytest.raises(ConfigError, match=r"model gpt-4: 404, .*'demo'"):
                await answers(endpoint.model_copy(update={"model": "gpt-4"}), PLAIN)
            monkeypatch.setenv("SERVED_KEY", "sk-of-another")
            with pytest.raises(ConfigError, match=r"401, .*SERVED_KEY") as caught:
                await answers(endpoint, PLAIN)
            assert "sk-of-another" not in str(caught.value)

    asyncio.run(both_ways())
