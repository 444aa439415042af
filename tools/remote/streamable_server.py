"""An MCP server at an address: no redirects, no proxies, answers of bounded size."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

# At DEBUG it logs whole messages, whose arguments may be secret.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.INFO)


class StreamableServer:
    """What is asked for and read of one MCP server over streamable HTTP."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str], timeout_s: float, max_response_bytes: int
    ) -> None:
        self._url = url
        self._headers = {**headers, "Accept-Encoding": "identity"}
        self._timeout_s = timeout_s
        self._max_response_bytes = max_response_bytes
        self.refused: str | None = None
        self.is_closed = False  # there is nothing that stays connected

    def why_it_ended(self) -> str:
        return ""  # the client says it

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Connect; yields what an MCP session reads from and writes to."""
        client = httpx2.AsyncClient(
            headers=self._headers,
            timeout=self._timeout_s,
            trust_env=False,
            transport=_Bounded(self),
        )
        async with (
            client,
            streamable_http_client(
                self._url,
                http_client=client,
                # It would wait for a server that may have stopped answering.
                terminate_on_close=False,
                max_sse_event_size=self._max_response_bytes,
            ) as streams,
        ):
            yield streams

    def refuse(self, why: str) -> httpx2.TransportError:
        """The error for a response that is not read, which is also kept in `refused`."""
        self.refused = why
        return httpx2.TransportError(why)

    def problem_of(self, response: httpx2.Response) -> str | None:
        """Why a response is not read, judged by its head."""
        if response.has_redirect_location:
            return "the server redirects, and redirects are not followed"
        if response.headers.get("Content-Encoding", "identity") != "identity":
            return "the answer is compressed, which was not asked for"
        return None

    async def bounded(self, stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        """The chunks of a response as long as they are not too many bytes in all."""
        num_bytes = 0
        async for chunk in stream:
            num_bytes += len(chunk)
            if num_bytes > self._max_response_bytes:
                raise self.refuse(f"the answer has more than {self._max_response_bytes} bytes")
            yield chunk


class _Bounded(httpx2.AsyncHTTPTransport):
    def __init__(self, server: StreamableServer) -> None:
        # Of the environment only which certificate authorities are trusted; no proxies.
        super().__init__(verify=httpx2.create_ssl_context(), trust_env=False)
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if problem := self._server.problem_of(response):
            await response.aclose()
            raise self._server.refuse(problem)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, self._server)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, server: StreamableServer) -> None:
        self._stream, self._server = stream, server

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._server.bounded(self._stream):
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
