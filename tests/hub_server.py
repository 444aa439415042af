"""A server that speaks as much of the Hugging Face Hub's protocol as an upload by LFS needs."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WRITER, READER = "hf_writer", "hf_reader"  # tokens


@dataclass
class Repository:
    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: list[list[str]] = field(default_factory=list)  # what each did: "+name" or "-name"

    @property
    def sha(self) -> str:
        return hashlib.sha1(json.dumps(self.commits).encode()).hexdigest()


class Hub:
    """Dataset repositories by name, and what LFS was given."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.uploads = 0
        self.on_upload: Callable[[], None] = lambda: None  # what happens meanwhile
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def created(self, name: str, private: bool) -> tuple[int, dict[str, Any]]:
        url = {"url": f"{self.url}/datasets/{name}"}
        if name in self.repositories:
            return 409, url | {"error": "You already created this dataset repo"}
        self.repositories[name] = Repository(private=private)
        return 200, url

    def described(self, name: str) -> tuple[int, dict[str, Any]]:
        if name not in self.repositories:
            return 404, {"error": "Repository not found"}
        repository = self.repositories[name]
        siblings = [{"rfilename": file} for file in sorted(repository.files)]
        about = {"id": name, "sha": repository.sha, "private": repository.private}
        return 200, about | {"siblings": siblings, "downloads": 0, "likes": 0, "tags": []}

    def preupload(self, name: str, files: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        answers = []
        for file in files:
            path = file["path"]
            mode = "lfs" if path.endswith(".parquet") else "regular"
            there = self.repositories[name].files.get(path)
            answers.append(
                {"path": path, "uploadMode": mode, "shouldIgnore": False}
                | ({} if there is None else {"oid": _oid(there, mode)})
            )
        return 200, {"files": answers}

    def batch(self, objects: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        answers = [
            {"oid": each["oid"], "size": each["size"]}
            | (
                {}
                if each["oid"] in self.large
                else {"actions": {"upload": {"href": f"{self.url}/lfs/{each['oid']}"}}}
            )
            for each in objects
        ]
        return 200, {"transfer": "basic", "objects": answers}

    def committed(self, name: str, lines: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
        repository, done = self.repositories[name], []
        if lines[0]["value"].get("parentCommit") not in (None, repository.sha):
            return 412, {"error": "A commit has happened since. Please refresh and try again."}
        for line in lines[1:]:
            path, value = line["value"]["path"], line["value"]
            if line["key"] == "deletedFile":
                del repository.files[path]
                done.append(f"-{path}")
                continue
            large = line["key"] == "lfsFile"
            content = self.large[value["oid"]] if large else base64.b64decode(value["content"])
            repository.files[path] = content
            done.append(f"+{path}")
        repository.commits.append(done)
        url = f"{self.url}/datasets/{name}/commit/{repository.sha}"
        return 200, {"commitUrl": url, "commitOid": repository.sha, "success": True}


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].removeprefix("/api/datasets/").partition("/revision")[0]
        self._answer(*(self._refusal(writing=False) or self.hub.described(name)))

    def do_PUT(self) -> None:
        content = self._content()
        oid = self.path.rpartition("/")[2]
        if hashlib.sha256(content).hexdigest() != oid:
            self._answer(400, {"error": "not the content that was announced"})
            return
        self.hub.large[oid] = content
        self.hub.uploads += 1
        self.hub.on_upload()
        self._answer(200, {})

    def do_POST(self) -> None:
        content, path = self._content(), self.path.partition("?")[0]
        refusal = self._refusal(writing=path != "/api/validate-yaml")
        self._answer(*(refusal or self._posted(path, content)))

    def _posted(self, path: str, content: bytes) -> tuple[int, dict[str, Any]]:
        parts = path.removeprefix("/api/datasets/").split("/")
        name = "/".join(parts[:2])
        if path.endswith("/commit/main"):
            return self.hub.committed(name, [json.loads(line) for line in content.splitlines()])
        body = json.loads(content)
        if path == "/api/repos/create":
            name = f"{body.get('organization') or 'me'}/{body['name']}"
            return self.hub.created(name, body.get("visibility") == "private")
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.endswith("/preupload/main"):
            return self.hub.preupload(name, body["files"])
        if path.endswith("/info/lfs/objects/batch"):
            return self.hub.batch(body["objects"])
        return 404, {"error": f"no {path} here"}

    def _refusal(self, *, writing: bool) -> tuple[int, dict[str, Any]] | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in (WRITER, READER):
            return 401, {"error": "Invalid username or password."}
        if writing and token == READER:
            return 403, {"error": "You don't have the rights to create a dataset under this name"}
        return None

    def _content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if "error" in body:
            self.send_header("X-Error-Message", body["error"])
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Nothing: the output is the tests'."""


def _oid(content: bytes, mode: str) -> str:
    if mode == "lfs":
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A Hub with no repository yet."""
    hub = Hub()
    try:
        yield hub
    finally:
        hub.stop()
