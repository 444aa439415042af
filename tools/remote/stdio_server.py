"""An MCP server as a process of ours: started, spoken to in lines of bounded size, and ended."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

_LEASH = Path(__file__).with_name("leash.py")
_INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_GRACE_S = 2.0  # for a server to end by itself once its input is closed, and again once asked to
_LAST_WORDS_S = 0.5  # for the exit code of a server that has closed its output to be known
_POLL_S = 0.01
_KEPT_OF_STDERR = 2000


class StdioServer:
    """The process of one MCP server, and why it ended if it did.

    It sees of the environment what _INHERITED names and `environment` adds. No shell is between.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], max_line_bytes: int
    ) -> None:
        self._command = list(command)
        self._environment = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        self._environment |= environment
        self._max_line_bytes = max_line_bytes
        self._stderr = b""
        self._process: asyncio.subprocess.Process | None = None
        self.refused: str | None = None
        self.is_closed = False

    def why_it_ended(self) -> str:
        """Its exit code and the last line it wrote to its standard error; "" if it still runs."""
        if not self.is_closed or self._process is None:
            return ""
        code = self._process.returncode
        lines = self._stderr.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        ended = "the server has closed its output" if code is None else f"the server ended ({code})"
        return f"{ended}: {last}" if last else ended

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Start the process; yields what an MCP session reads from and writes to.

        When the context ends so does the process, with all it has started in its group.
        """
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid())]
        self._process = process = await asyncio.create_subprocess_exec(
            *(leash + self._command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=self._max_line_bytes,
            env=self._environment,
            start_new_session=True,  # a group of its own, so that it can be ended as a whole
        )
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as tasks, to_server, from_server:
                tasks.start_soon(self._read, process, to_session)
                tasks.start_soon(self._write, process, from_session)
                tasks.start_soon(self._read_stderr, process)
                try:
                    yield from_server, to_server
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        to_session: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    ) -> None:
        assert process.stdout is not None
        async with to_session:  # closing it fails what still waits for an answer
            while True:
                try:
                    line = await process.stdout.readuntil(b"\n")
                except asyncio.IncompleteReadError:
                    break
                except asyncio.LimitOverrunError:
                    self.refused = f"the answer has more than {self._max_line_bytes} bytes"
                    break
                with suppress(ValueError, RecursionError):  # a print of the server's, no message
                    await to_session.send(_message(line))
            self.is_closed = True
            with anyio.move_on_after(_LAST_WORDS_S):
                while process.returncode is None and self.refused is None:
                    await anyio.sleep(_POLL_S)

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        from_session: anyio.abc.ObjectReceiveStream[SessionMessage],
    ) -> None:
        assert process.stdin is not None
        async with from_session:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
                except OSError:  # the reader notices as well, and says so
                    self.is_closed = True

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while chunk := await process.stderr.read(4096):
            self._stderr = (self._stderr + chunk)[-_KEPT_OF_STDERR:]


def _message(line: bytes) -> SessionMessage:
    """The message of a line; halves of surrogate pairs in it, which are no text, become "?"."""
    if b"\\ud" in line.lower():
        line = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
    return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the input of the process, then ask its group to end, then force it to."""
    assert process.stdin is not None
    process.stdin.close()
    async with anyio.create_task_group() as tasks:
        for stream in (process.stdout, process.stderr):
            tasks.start_soon(_drain, stream)  # what waits to write does not see that input ended
        with anyio.move_on_after(_GRACE_S):
            while process.returncode is None:
                await anyio.sleep(_POLL_S)
        for number in (signal.SIGTERM, signal.SIGKILL):
            if _reached(process.pid, number):
                with anyio.move_on_after(_GRACE_S):
                    while _reached(process.pid, 0):
                        await anyio.sleep(_POLL_S)
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
        tasks.cancel_scope.cancel()


async def _drain(stream: asyncio.StreamReader | None) -> None:
    assert stream is not None
    while await stream.read(65536):
        pass


def _reached(group: int, number: int) -> bool:
    """Send a signal (0: none) to a process group; whether there was anyone to get it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
