"""Debian's Chromium without a window, spoken to through a pipe by its DevTools protocol."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip

_PATIENCE_S = 90.0  # with a browser that says nothing


class Page:
    """An open page, with all it asked for and complained of."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session: str = browser.call("Target.attachToTarget", attach)["sessionId"]
        self._target = target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        return self._browser.call(method, arguments, self._session)

    def look_as(self, *, width: int, height: int, dark: bool) -> None:
        """Be a phone (below 500 pixels) or a desktop, light or dark."""
        phone = width < 500
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, place: Path | str) -> None:
        """Load a file or an address and wait until it is there."""
        self._call("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        self._browser.wait("Page.loadEventFired", self._session)

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page, of a promise when it is kept."""
        answer = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    @property
    def requests(self) -> list[str]:
        """Addresses of everything that was asked for."""
        return [event["request"]["url"] for event in self._events("Network.requestWillBeSent")]

    @property
    def complaints(self) -> list[Any]:
        """What the console shows, and errors of scripts."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for kind in kinds for event in self._events(kind)]

    def _events(self, kind: str) -> list[dict[str, Any]]:
        return self._browser.events(kind, self._session)

    def screenshot(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode(self._call("Page.captureScreenshot")["data"])

    def close(self) -> None:
        self._browser.call("Target.closeTarget", {"targetId": self._target})


class Browser:
    """A Chromium with a new profile."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # It reads from 3 and writes to 4: our ends must not have these numbers themselves.
        inner = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        redirected = f'exec "$@" 3<&{inner[0]} 4>&{inner[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, "bash", CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}"],
            pass_fds=inner, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        for end in (commands, answers, *inner):
            os.close(end)
        self._number, self._buffer = 0, b""
        self._seen: list[dict[str, Any]] = []

    def call(
        self, method: str, arguments: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """The answer to a command of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments or {}}
        message |= {"sessionId": session} if session else {}
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._seen.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def wait(self, kind: str, session: str) -> None:
        """Return when an event has come."""
        while not self.events(kind, session):
            self._seen.append(self._next())

    def events(self, kind: str, session: str) -> list[dict[str, Any]]:
        return [
            event["params"]
            for event in self._seen
            if event.get("method") == kind and event.get("sessionId") == session
        ]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            assert select.select([self._answers], [], [], _PATIENCE_S)[0], "Chromium is silent"
            data = os.read(self._answers, 2**20)
            assert data, "Chromium has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the duration of the body."""
    with tempfile.TemporaryDirectory(prefix="tf-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            yield browser
        finally:
            browser.stop()
