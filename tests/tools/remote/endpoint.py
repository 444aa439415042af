"""A real HTTP server whose paths answer well, badly, or never to an end."""

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_SENT = 200_000_000  # by "/endless", should nobody hang up


class Endpoint(ThreadingHTTPServer):
    """Keeps what it was asked: the line of the request, its headers and its body."""

    daemon_threads = True

    def __init__(self, certificate: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http" if certificate is None else "https"
        if certificate is not None:
            self.socket = certificate.wrap_socket(self.socket, server_side=True)
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.num_bytes_sent = 0
        self.hung_up = threading.Event()
        self.ended = threading.Event()
        self.elsewhere = ""  # where "/redirect" points to

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error here."""


@contextmanager
def serving(certificate: ssl.SSLContext | None = None) -> Iterator[Endpoint]:
    endpoint = Endpoint(certificate)
    thread = threading.Thread(target=endpoint.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.ended.set()
        endpoint.shutdown()
        thread.join()
        endpoint.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.requestline, dict(self.headers), body))
        path = self.path.partition("?")[0]
        answer = _ANSWERS.get(path)
        if answer is None:
            self.reply(404, b"{}")
        else:
            with suppress(ConnectionError):
                answer(self)

    do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is theirs."""

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def trickle(self, head: bytes, piece: bytes, pause_s: float) -> None:
        """`head`, then `piece` again and again until the client hangs up."""
        self.close_connection = True
        try:
            self.wfile.write(head)
            while self.server.num_bytes_sent < MAX_SENT:
                self.wfile.write(piece)
                self.server.num_bytes_sent += len(piece)
                time.sleep(pause_s)
        except OSError:
            self.server.hung_up.set()


def _echo(handler: _Handler) -> None:
    _, _, body = handler.server.asked[-1]
    said = json.loads(body)["q"] if body else handler.path.partition("?")[2]
    handler.reply(200, json.dumps({"data": [{"text": said}]}).encode())


def _flaky(handler: _Handler) -> None:
    fine = len(handler.server.asked) > 2
    handler.reply(200 if fine else 500, b'{"data": [{"text": "fine again"}]}')


def _answer(handler: _Handler) -> None:
    """The endpoint of tools/README.md."""
    asked = json.loads(handler.server.asked[-1][2])
    texts = [{"text": f"{asked['question']} Nobody knows."}][: asked["limit"]]
    allowed = handler.headers.get("Authorization") == "Bearer 0f1e2d"
    handler.reply(200 if allowed else 401, json.dumps({"answers": texts}).encode())


def _cookie(handler: _Handler) -> None:
    got = handler.headers.get("Cookie", "no cookie")
    handler.reply(200, json.dumps({"data": got}).encode(), Set_Cookie="seen=1; Path=/")


def _session(handler: _Handler) -> None:
    """An MCP server with sessions, which stops answering once it is called."""
    body = handler.server.asked[-1][2]
    asked = json.loads(body) if body else {"method": handler.command}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "session", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "get_weather", "inputSchema": {"type": "object"}}]},
    }
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] in ("tools/call", "DELETE"):
        handler.server.ended.wait(60)
    elif asked["method"] == "GET":
        handler.reply(405, b"")
    elif "id" not in asked:
        handler.reply(202, b"")
    elif asked["method"] in results:
        answer["result"] = results[asked["method"]]
        handler.reply(200, json.dumps(answer).encode(), Mcp_Session_Id="1")
    else:
        answer["error"] = {"code": -32601, "message": "what?"}
        handler.reply(200, json.dumps(answer).encode())


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


def _json(body: bytes, content_type: str = "application/json") -> Callable[[_Handler], None]:
    return lambda handler: handler.reply(200, body, Content_Type=content_type)


def _status(status: int) -> Callable[[_Handler], None]:
    return lambda handler: handler.reply(status, b'{"data": "an error page"}', Retry_After="3")


def _redirect(status: int) -> Callable[[_Handler], None]:
    return lambda handler: handler.reply(status, b"{}", Location=handler.server.elsewhere)


_ANSWERS: dict[str, Callable[[_Handler], None]] = {
    "/echo": _echo,
    "/v1/answer": _answer,
    "/flaky": _flaky,
    "/cookie": _cookie,
    "/session": _session,
    "/redirect": _redirect(302),
    "/redirect-post": _redirect(307),
    "/endless": lambda handler: handler.trickle(_HEAD, b"0" * 65536, 0.0),
    "/endless-head": lambda handler: handler.trickle(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536, 0.0),
    "/slow": lambda handler: handler.trickle(_HEAD, b"1", 0.02),
    "/slow-head": lambda handler: handler.trickle(b"HTTP/1.1 200 OK\r\nX: ", b"1", 0.02),
    "/html": _json(b"<html>Please log in</html>", "text/html"),
    "/torn": _json(b'{"data": "ab'),
    "/deep": _json(b"[" * 200_000),
    "/latin": _json(b'{"data": "caf\xe9"}'),
    "/text": _json(b'{"data": "as text"}', "text/plain"),
    "/number": _json(b'{"data": 3.10, "big": 1' + b"0" * 5000 + b', "yes": true, "nan": NaN}'),
    "/nothing": _json(b'{"data": null, "blank": "  ", "list": []}'),
    "/blank": _json(b""),
    "/whole": _json(b'"all of it"'),
    "/bomb": lambda handler: handler.reply(
        200, gzip.compress(b'"' + b"0" * 50_000_000 + b'"', 1), Content_Encoding="gzip"
    ),
    "/busy": _status(429),
    "/down": _status(503),
    "/secret": _status(401),
    "/bad": _status(400),
    **{f"/status/{status}": _status(status) for status in (402, 403, 405, 408, 413, 414, 422, 425)},
}
