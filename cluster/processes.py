"""Processes that end when this one does, with all that came of them."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from tools.base import ToolformerError

_SET_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # of Linux' prctl
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S = 20.0
_POLL_S = 0.05


@contextmanager
def process_family() -> Iterator[None]:
    """Whatever is started in the body, and all that this starts, is gone afterwards.

    For a command that starts nothing else: every descendant of this process is meant. A signal
    to end becomes the SystemExit of a shell's exit code, Ctrl-C stays KeyboardInterrupt.
    """
    libc = ctypes.CDLL(None)
    # Ray's workers outlive the process that started them for a moment; then they are ours.
    libc.prctl(_SET_CHILD_SUBREAPER, 1)
    before = {number: signal.signal(number, _exit) for number in _ENDING[1:]}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)  # the end is near already
        _end_all()
        libc.prctl(_SET_CHILD_SUBREAPER, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path | None = None,
    output: IO[bytes] | None = None,
) -> "subprocess.Popen[bytes]":
    """A process that a signal to our terminal does not reach, and that our death ends."""
    return subprocess.Popen(
        command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
        stderr=output, start_new_session=True, preexec_fn=_end_with_parent,
    )  # fmt: skip


def end(process: "subprocess.Popen[bytes]") -> None:
    """End one process: it is asked, and killed when it does not listen."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)


def _end_all() -> None:
    """Ask our children to end, then kill whatever is left of the family."""
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            child.terminate()
    deadline = time.monotonic() + _GRACE_S
    while _family() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    deadline = time.monotonic() + _GRACE_S
    while left := _family():
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in left)
            raise ToolformerError(f"processes that cannot be killed are left: {pids}")
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(_POLL_S)


def _family() -> list[psutil.Process]:
    """What is alive of all that this process started; who ended is let go."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found
