"""A loaded generator in a thread, and servers of it as tests want them."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
from openai import OpenAI

from training.generate.config import GenerateConfig
from training.generate.generator import Generator
from training.serve.keys import ApiKey
from training.serve.limits import Limits
from training.serve.listening import bind, url_of
from training.serve.server import CompletionServer

PATIENCE_S = 120.0  # for what takes a moment on a free machine
SOON_S = 30.0  # for what never comes where something is wrong
# What a request gets of a server that is ending: 503 until it has closed its port.
NOT_TAKEN = (openai.InternalServerError, openai.APIConnectionError)


@dataclass(frozen=True)
class Served:
    """A server that answers at `url`, as OpenAI's clients name it."""

    url: str
    end: Callable[[], None]
    has_ended: Callable[[], bool]

    @contextmanager
    def client(self, key: str = "none") -> Iterator[OpenAI]:
        """A client that does not ask twice."""
        with OpenAI(base_url=self.url, api_key=key, max_retries=0, timeout=PATIENCE_S) as client:
            yield client

    def health(self) -> dict[str, Any]:
        answer = httpx.get(self.url.replace("/v1", "/health"), timeout=PATIENCE_S)
        return dict(answer.json())

    def wait_until(self, **state: int) -> None:
        """Until its health says so."""
        wait_until(lambda: state.items() <= self.health().items())


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON_S
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


class Loaded:
    """A generator, loaded in a loop of its own."""

    def __init__(self, config: GenerateConfig) -> None:
        self._config = config
        self._is_loaded, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._is_loaded.wait(PATIENCE_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._hold())

    async def _hold(self) -> None:
        self._released = asyncio.Event()
        async with Generator(self._config) as self.generator:
            self._is_loaded.set()
            await self._released.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._released.set)
        self._thread.join(PATIENCE_S)

    @contextmanager
    def serve(
        self, *, key: str | None = None, grace_s: float = 30.0, **limits: Any
    ) -> Iterator[Served]:
        """A server of the model "demo", until the end of the body."""
        bound, ready = bind("127.0.0.1", 0, None), threading.Event()
        server = CompletionServer(
            self.generator,
            model="demo",
            limits=Limits(**limits),
            key=None if key is None else ApiKey(key),
            grace_s=grace_s,
            ready=ready.set,
        )
        running = asyncio.run_coroutine_threadsafe(server.serve(sockets=[bound]), self._loop)
        assert ready.wait(PATIENCE_S)

        def end() -> None:
            self._loop.call_soon_threadsafe(server.end)

        try:
            yield Served(url_of(bound), end, running.done)
        finally:
            end()
            end()
            running.result(PATIENCE_S)
