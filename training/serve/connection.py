"""Connections: how many there may be, and how long one may be without a request."""

import asyncio

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from training.serve.errors import busy
from training.serve.limits import Limits


def connection_class(limits: Limits) -> type[H11Protocol]:
    """Connections as uvicorn has them, within `limits`.

    One that has not sent the whole head of a request after `timeout_s` is closed; uvicorn waits
    for ever. One that is beyond `max_connections` is closed with 429 for its first request.
    """

    class Connection(H11Protocol):
        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.max_connections:
                self.app = _refusal(limits)
            self._wait_for_a_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait_for_a_head()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_waiting()

        def _wait_for_a_head(self) -> None:
            """From the first byte on, not from the last."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_waiting()
            elif self._waiting is None:
                self._waiting = self.loop.call_later(
                    limits.timeout_s, self.timeout_keep_alive_handler
                )

        def _stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

    return Connection


def _refusal(limits: Limits) -> Response:
    error = busy(f"{limits.max_connections} connections are open, as many as may")
    headers = error.headers | {"connection": "close"}
    return Response(error.body(), error.status, headers, media_type="application/json")
