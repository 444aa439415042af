"""A server on a socket: it begins once all is loaded, and ends when what runs has ended."""

import asyncio
import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from tools.base import ConfigError
from training.generate.config import GenerateConfig
from training.generate.generator import Generator
from training.serve.app import make_app
from training.serve.connection import connection_class
from training.serve.keys import ApiKey
from training.serve.limits import Admission, Limits
from training.serve.listening import reason, url_of

_LAST_WORDS_S = 5  # after the grace period, to tell those that still run
# Longer than the minute that load balancers keep idle connections for: one that is closed when a
# request is on its way would be an error that no one made.
_KEEP_ALIVE_S = 75


class CompletionServer(uvicorn.Server):
    """Serves a loaded generator under the name `model`.

    `ready` is called as soon as requests are answered.
    """

    def __init__(
        self,
        generator: Generator,
        *,
        model: str,
        limits: Limits,
        key: ApiKey | None,
        grace_s: float,
        ready: Callable[[], None],
    ) -> None:
        self._admission = Admission(limits)
        self._grace_s, self._ready = grace_s, ready
        app = make_app(generator, model=model, limits=limits, admission=self._admission, key=key)
        super().__init__(
            uvicorn.Config(
                app,
                http=connection_class(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=math.ceil(grace_s) + _LAST_WORDS_S,
            )
        )

    @property
    def num_running(self) -> int:
        return self._admission.num_running

    def end(self) -> None:
        """Take no more requests, and end when those that run have; the second time, end those."""
        self._admission.end(0.0 if self.should_exit else self._grace_s)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen.

        Raises:
            ConfigError: another process listens there by now.
        """
        assert sockets, "it is served on a socket that was bound before"
        try:
            await super().startup(sockets)
        except OSError as error:
            raise ConfigError(f"{url_of(sockets[0])}: {reason(error)}") from None
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: whoever runs the loop handles signals, before there is a server too."""
        yield


async def serve(
    config: GenerateConfig,
    bound: socket.socket,
    *,
    model: str,
    limits: Limits,
    key: ApiKey | None,
    grace_s: float,
    address: str | None,
    say: Callable[[str], None],
) -> None:
    """Load all that `config` names, serve it until a signal, and end it.

    Raises:
        ToolformerError: something cannot be loaded.
        CancelledError: a signal came before all was loaded.
    """
    loop, loading = asyncio.get_running_loop(), asyncio.current_task()
    assert loading is not None

    def on_signals(then: Callable[[], object]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, then)

    on_signals(loading.cancel)
    say(f"loading {config.model.path}, tools: {', '.join(config.tools) or 'none'}")
    began = time.perf_counter()
    async with Generator(config, address=address) as generator:
        say(f"loaded in {time.perf_counter() - began:.1f} s")
        server = CompletionServer(
            generator,
            model=model,
            limits=limits,
            key=key,
            grace_s=grace_s,
            ready=lambda: say(f"serving {model} at {url_of(bound)}"),
        )

        def end() -> None:
            server.end()
            say(f"ending; requests that run: {server.num_running}")

        on_signals(end)  # after the tools: Ray takes SIGTERM for itself when it is joined
        await server.serve(sockets=[bound])
