"""A tool that is one tool of an MCP server, named in the configuration.

Nothing of `mcp` is imported before the server is needed.
"""

import atexit
import importlib.util
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tools.base import ConfigError, ToolformerError, ToolRequest, ToolResult
from tools.remote.mcp_arguments import NotConvertible, converter_of
from tools.remote.options import (
    checked_arguments,
    checked_environment,
    checked_headers,
    checked_positive,
    checked_url,
    filled_arguments,
    filled_in,
    refusal_of,
    version_of,
)

if TYPE_CHECKING:
    from tools.remote.mcp_session import McpSession, Server


class McpTool:
    """Asks one tool of an MCP server; the text in its answer is the result.

    The session is opened by `load` in the process that serves the tool and stays open. A server
    that dies, or does not answer in time, costs the call it did that in, which may be asked
    again; the next call opens a new session, once.

    Args:
        name: in a call and in the configuration.
        tool: the name of the tool on the server.
        argument: the argument that carries the input, converted to its type in the server's
            schema: a string, a number, an integer or a boolean.
        command: the server's program and its arguments; no shell reads them.
        url: instead of it, the address of a server that speaks streamable HTTP.
        arguments: further arguments, always the same; ${NAME} in a text stands for an
            environment variable where the tool runs.
        env: variables given to the server beside PATH, HOME and the like, with ${NAME} alike.
        headers: of the requests to `url`, with ${NAME} alike.
        version: raise it when the server begins to answer differently.
        timeout_s: for the answer to a call.
        start_timeout_s: for each of the first answers of a session, which wait until a server
            has started.
        max_input_bytes: longer inputs are invalid and are not sent.
        max_response_bytes: of a longer message no more is read, and the call has failed.

    Raises:
        ConfigError: an option cannot be used, or `mcp` is not installed.
    """

    def __init__(
        self,
        *,
        name: str,
        tool: str,
        argument: str,
        command: list[str] | None = None,
        url: str | None = None,
        arguments: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        version: str = "",
        timeout_s: float = 30.0,
        start_timeout_s: float = 60.0,
        max_input_bytes: int = 10_000,
        max_response_bytes: int = 1_000_000,
    ) -> None:
        options = {key: value for key, value in locals().items() if key != "self"}
        self.name = name
        self.version = version_of(version, options)
        checked_positive(
            name,
            timeout_s=timeout_s,
            start_timeout_s=start_timeout_s,
            max_input_bytes=max_input_bytes,
            max_response_bytes=max_response_bytes,
        )
        self._tool, self._argument = tool, argument
        self._arguments = checked_arguments(name, arguments or {})
        self._fixed: dict[str, Any] = {}  # the arguments as they are sent
        if argument in self._arguments:
            raise ConfigError(
                f"tool {name}: {argument!r} carries the input and cannot be fixed too"
            )
        _check_the_way(name, command, url, env, headers)
        self._command, self._url = command, url
        self._environment = checked_environment(name, env or {})
        self._headers = checked_headers(name, headers or {})
        self._timeout_s, self._start_timeout_s = timeout_s, start_timeout_s
        self._max_input_bytes, self._max_response_bytes = max_input_bytes, max_response_bytes
        self._session: McpSession | None = None
        if importlib.util.find_spec("mcp") is None:
            raise ConfigError(f"tool {name}: needs the package mcp: pip install mcp")

    def load(self) -> None:
        """Open the session, unless one is open, and see that the tool is there.

        Raises:
            ConfigError: the server has no such tool, or none with such arguments, or an environment
                variable that an option names is not set.
            ToolformerError: the server cannot be started or reached.
        """
        if self._session is not None and self._session.is_open:
            return
        from tools.remote.mcp_session import McpSession

        self.close()
        self._fixed = filled_arguments(self.name, self._arguments)
        try:
            session = McpSession(
                self._server(), start_timeout_s=self._start_timeout_s, timeout_s=self._timeout_s
            )
            atexit.register(self.close)
            self._session = session
            tools = {tool.name: tool.input_schema for tool in session.tools()}
        except ConfigError:
            raise
        except ToolformerError as error:
            raise ToolformerError(f"tool {self.name}: no MCP server: {error}") from None
        try:
            self._convert = converter_of(
                tools, tool=self._tool, argument=self._argument, fixed=self._arguments
            )
        except ConfigError as error:
            self.close()
            raise ConfigError(f"tool {self.name}: {error}") from None

    def close(self) -> None:
        """End the session, and the server if it is a process; a later request opens a new one."""
        if self._session is not None:
            self._session.close()
            self._session = None
            atexit.unregister(self.close)

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [self._answer(request.input) for request in requests]

    def _answer(self, text: str) -> ToolResult:
        if refusal := refusal_of(text, self._max_input_bytes):
            return ToolResult.invalid(refusal)
        try:
            self.load()
        except ConfigError:
            raise
        except ToolformerError as error:
            return ToolResult.failed(str(error), retryable=True)
        assert self._session is not None
        try:
            value = self._convert(text)
        except NotConvertible as error:
            return ToolResult.invalid(str(error))
        return self._session.call(self._tool, {**self._fixed, self._argument: value})

    def _server(self) -> "Server":
        from tools.remote.stdio_server import StdioServer
        from tools.remote.streamable_server import StreamableServer

        if self._url is not None:
            return StreamableServer(
                self._url,
                headers=filled_in(self.name, "headers", self._headers),
                timeout_s=max(self._timeout_s, self._start_timeout_s),
                max_response_bytes=self._max_response_bytes,
            )
        assert self._command is not None
        return StdioServer(
            self._command,
            environment=filled_in(self.name, "env", self._environment),
            max_line_bytes=self._max_response_bytes,
        )


def _check_the_way(
    name: str,
    command: Sequence[str] | None,
    url: str | None,
    env: dict[str, str] | None,
    headers: dict[str, str] | None,
) -> None:
    if (command is None) == (url is None):
        raise ConfigError(f"tool {name}: give either command (a server to start) or url")
    if url is not None:
        if env is not None:
            raise ConfigError(f"tool {name}: option 'env' goes with command, not with url")
        checked_url(name, url)
        return
    if headers is not None:
        raise ConfigError(f"tool {name}: option 'headers' goes with url, not with command")
    if not command or not command[0] or any("\0" in part for part in command):
        raise ConfigError(f"tool {name}: option 'command' is {command!r}, expected a program")
    if shutil.which(command[0]) is None:
        raise ConfigError(f"tool {name}: option 'command': there is no program {command[0]!r}")
