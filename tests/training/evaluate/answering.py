"""A server of completions that answers as a test says."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# (status, body) for a request's body and how often its prompt was asked before.
Answering = Callable[[Mapping[str, Any], int], tuple[int, object]]


@dataclass
class Asked:
    """What reached the server, and where that is."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def times(self, prompt: str) -> int:
        return sum(body["prompt"] == prompt for body in self.bodies)


def completion(text: str) -> dict[str, Any]:
    """A body as OpenAI's."""
    return {
        "id": "cmpl-1", "object": "text_completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "text": text, "finish_reason": "length", "logprobs": None}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }  # fmt: skip


@contextmanager
def answering(answer: Answering) -> Iterator[Asked]:
    """A server that lives as long as the context; who fails may ask again at once."""
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with asked.lock:
                before = asked.times(body["prompt"])
                asked.bodies.append(body)
                asked.keys.add(self.headers["Authorization"])
                asked.in_flight += 1
                asked.most_in_flight = max(asked.most_in_flight, asked.in_flight)
            status, said = answer(body, before)
            with asked.lock:
                asked.in_flight -= 1
            data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            kind = "text/html" if isinstance(said, str) else "application/json"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that went away is no news."""

    with Server(("127.0.0.1", 0), Handler) as server:
        asked.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()
