"""An open session with an MCP server, asked from ordinary code: no coroutine leaves this module."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Any, Protocol

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_TIMEOUT,
    CallToolResult,
    TextContent,
)
from mcp_types import Tool as ServerTool

from tools.base import ToolformerError, ToolResult, one_line

# Of these a new session may be rid: the server has gone, failed, or forgot the session.
_RETRYABLE = {CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST}
_MAX_PAGES = 100
_ERROR_CHARACTERS = 500


class Server(Protocol):
    """A way to one MCP server: its process, or its address."""

    refused: str | None  # why an answer was not read to its end
    is_closed: bool  # it will not answer any more

    def open(self) -> AbstractAsyncContextManager[TransportStreams]: ...

    def why_it_ended(self) -> str: ...


class McpSession:
    """A session that stays open until it is closed or breaks.

    Args:
        server: is connected to now.
        start_timeout_s: for each of the first answers, after which the session is open.
        timeout_s: for the answer to a call.

    Raises:
        ToolformerError: it cannot be connected to, or does not speak MCP.
    """

    def __init__(self, server: Server, *, start_timeout_s: float, timeout_s: float) -> None:
        self._server = server
        self._start_timeout_s, self._timeout_s = start_timeout_s, timeout_s
        self._client = Client(server.open(), cache=None, read_timeout_seconds=start_timeout_s)
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal(name="mcp-session"))
        try:
            self._stack.enter_context(self._portal.wrap_async_context_manager(self._client))
        except Exception as error:
            raise ToolformerError(_joined(_text(error), self.close())) from None
        self._is_open = True

    @property
    def is_open(self) -> bool:
        return self._is_open and not self._server.is_closed

    def tools(self) -> list[ServerTool]:
        """What the server offers.

        Raises:
            ToolformerError: it does not say.
        """
        try:
            return self._portal.call(self._tools)
        except Exception as error:
            raise ToolformerError(_joined(_text(error), self.close())) from None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What the server's tool answers. A session that breaks of it is closed."""
        try:
            return _result(self._portal.call(self._call, tool, dict(arguments)))
        except TimeoutError:
            return self._late()
        except MCPError as error:
            return self._failed(error)
        except Exception as error:  # an answer that breaks the protocol or the tool's own schema
            self.close()
            return ToolResult.failed(f"not an answer: {_text(error)}")

    def close(self) -> str:
        """End the session, and the server if it is a process; returns why it had ended, if so."""
        self._is_open = False
        why = self._server.why_it_ended()
        try:
            self._stack.close()
        except Exception as error:  # what had broken it
            why = why or _text(error)
        return self._server.refused or why

    def _late(self) -> ToolResult:
        self.close()
        return ToolResult.failed(f"no answer in {self._timeout_s:g} s", retryable=True)

    def _failed(self, error: MCPError) -> ToolResult:
        if error.code == REQUEST_TIMEOUT:
            return self._late()
        if error.code == INVALID_PARAMS:
            return ToolResult.invalid(_text(error))
        if error.code not in _RETRYABLE:
            return ToolResult.failed(_text(error))
        why = self.close()
        if self._server.refused is not None:
            return ToolResult.failed(self._server.refused)
        return ToolResult.failed(_joined(_text(error), why), retryable=True)

    async def _tools(self) -> list[ServerTool]:
        tools: list[ServerTool] = []
        cursor = None
        with anyio.fail_after(self._start_timeout_s):
            for _ in range(_MAX_PAGES):
                page = await self._client.list_tools(cursor=cursor)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    break
        return tools

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        with anyio.fail_after(self._timeout_s):
            return await self._client.call_tool(
                tool, arguments, read_timeout_seconds=self._timeout_s
            )


def _result(answer: CallToolResult) -> ToolResult:
    text = "\n".join(part.text for part in answer.content if isinstance(part, TextContent))
    if answer.is_error:
        # This is also how a server says that it is busy or broken, so it is no fault of the input.
        return ToolResult.failed(one_line(ValueError(text))[:_ERROR_CHARACTERS] or "an error")
    return ToolResult.ok(text) if text.strip() else ToolResult.empty("no text in the answer")


def _joined(text: str, why: str) -> str:
    return f"{text}: {why}" if why and why != text else text


def _text(error: BaseException) -> str:
    """An error in one line; of a group of errors the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    line = one_line(error) if isinstance(error, MCPError) else ""
    return (line or f"{type(error).__name__}: {one_line(error)}")[:_ERROR_CHARACTERS]
