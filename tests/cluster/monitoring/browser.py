"""A headless Chromium, steered by its DevTools protocol: what a user sees on a page."""

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

_PATIENCE_S = 60.0
_POLL_S = 0.1
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--remote-debugging-port=0",
)  # fmt: skip


class Page:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)

    def do(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol, as "Page.navigate"."""
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:  # events come in between
            answer = json.loads(self._connection.recv(timeout=_PATIENCE_S))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def text(self) -> str:
        """What can be read on the page now."""
        evaluated = self.do("Runtime.evaluate", expression="document.body?.innerText ?? ''")
        return str(evaluated["result"].get("value", ""))

    def shows(self, url: str, *wanted: str) -> str:
        """The text of the page at `url`, once it has all that is wanted."""
        self.do("Page.navigate", url=url)
        deadline = time.monotonic() + _PATIENCE_S
        while not all(part in (text := self.text()) for part in wanted):
            assert time.monotonic() < deadline, f"{url} shows not all of {wanted} but: {text}"
            time.sleep(_POLL_S)
        return text

    def screenshot(self, path: Path, **options: Any) -> None:
        """What the page looks like, as PNG or as the `format` of the options."""
        path.write_bytes(base64.b64decode(self.do("Page.captureScreenshot", **options)["data"]))


@contextmanager
def browser(directory: Path, *, width: int = 1400, height: int = 1000) -> Iterator[Page]:
    """A page of a Chromium that keeps its files in `directory` and is gone afterwards."""
    chromium = shutil.which("chromium")
    assert chromium is not None
    command = [
        chromium,
        *_OPTIONS,
        f"--user-data-dir={directory}",
        f"--window-size={width},{height}",
    ]
    process = subprocess.Popen(
        [*command, "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        port = _debugging_port(directory / "DevToolsActivePort", process)
        [page, *_] = [
            target
            for target in httpx.get(f"http://127.0.0.1:{port}/json/list").json()
            if target["type"] == "page"
        ]
        with connect(page["webSocketDebuggerUrl"], max_size=None) as connection:
            yield Page(connection)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _debugging_port(file: Path, process: "subprocess.Popen[bytes]") -> int:
    deadline = time.monotonic() + _PATIENCE_S
    while not (file.exists() and (lines := file.read_text().splitlines())):
        assert process.poll() is None, "Chromium ended"
        assert time.monotonic() < deadline, "Chromium does not listen"
        time.sleep(_POLL_S)
    return int(lines[0])
