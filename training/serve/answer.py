"""One request from its turn to its last byte; it ends with its client."""

import asyncio
import json
import logging
import time
from collections.abc import Coroutine, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from training.generate.events import Generation
from training.generate.generator import Generator
from training.serve.errors import ApiError, as_api_error
from training.serve.limits import Admission
from training.serve.request import CompletionRequest
from training.serve.response import DONE, Completion, event_of
from training.serve.side_by_side import side_by_side

_logger = logging.getLogger(__name__)

_JSON = {"content-type": "application/json"}
# A proxy is told to pass events on as they come.
_EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


class CompletionAnswer(Response):
    """The completion of a request, as one body or as a stream of events.

    Texts are generated while it is sent, so that nothing runs for a client that is gone. An error
    before the first event is a response with its status; after that, it is an event.
    """

    def __init__(
        self, request: CompletionRequest, generator: Generator, admission: Admission
    ) -> None:
        super().__init__()
        self._request, self._generator, self._admission = request, generator, admission
        self._completion = Completion(request.model)
        self._finished: dict[int, Generation] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.monotonic()
        wire = _Wire(send)
        outcome = "ended"
        try:
            outcome = wire.said if await _unless_gone(receive, self._send(wire)) else "client gone"
        finally:
            decoded = sum(each.cost.decoded_tokens for each in self._finished.values())
            calls = sum(len(each.calls) for each in self._finished.values())
            _logger.info(
                "%s: %s after %.2f s; %d of %d prompts finished, %d tokens decoded, %d calls",
                self._completion.id, outcome, time.monotonic() - began,
                len(self._finished), len(self._request.prompts), decoded, calls,
            )  # fmt: skip

    async def _send(self, wire: "_Wire") -> None:
        request, completion = self._request, self._completion
        texts = side_by_side(self._generator, request.prompts, request.params)
        try:
            async with self._admission.turn(), aclosing(texts):
                async for index, event in texts:
                    if isinstance(event, Generation):
                        self._finished[index] = event
                    if request.stream:
                        chunk = completion.chunk(index, event)
                        if request.include_usage:
                            chunk["usage"] = None  # it comes last
                        await wire.event(event_of(chunk))
            finished = [self._finished[index] for index in range(len(request.prompts))]
            if not request.stream:
                return await wire.whole(200, json.dumps(completion.whole(finished)).encode(), {})
            if request.include_usage:
                await wire.event(event_of(completion.usage_chunk(finished)))
            await wire.last_event(DONE)
        except Exception as error:
            await wire.fail(as_api_error(error))


class _Wire:
    """What goes to a client, in the words of ASGI.

    Attributes:
        said: how the answer ended, for the log.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._is_streaming = False
        self.said = ""

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        length = {"content-length": str(len(body))}
        self.said = str(status)
        await self._start(status, {**_JSON, **length, **headers})
        await self._send({"type": "http.response.body", "body": body})

    async def event(self, event: bytes) -> None:
        if not self._is_streaming:
            self._is_streaming = True
            await self._start(200, _EVENTS)
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def last_event(self, event: bytes) -> None:
        self.said = self.said or "200"
        await self.event(event)
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, error: ApiError) -> None:
        if not self._is_streaming:
            return await self.whole(error.status, error.body(), error.headers)
        self.said = f"{error.status} in the stream"
        await self.last_event(event_of({"error": error.error}))

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


async def _unless_gone(receive: Receive, work: Coroutine[None, None, None]) -> bool:
    """Whether `work` was done; it is cancelled where the client goes away before."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.done()
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
