"""Chosen moments of a run: processes at work leave word, wait or die at a document a test names.

Documents begin "Note <number>". What is to happen is said by files in one directory, so that a
test arranges it before a run, sees it while the run goes on, and finds it once, whoever repeats
the work:

    hold-<kind>-<number>        whoever comes there first waits: the file becomes
    held-<kind>-<number>.<pid>  while that process waits, until the test removes it
    once-<kind>-<number>        whoever comes there first removes it and dies
    ended-<kind>-<number>       likewise, but Ray ends the actor that comes there
    healed                      texts with "dies-<kind>" kill their process while this is not there
    work.log                    a line for every request an engine was asked

Kinds are those of the engine (position, sample, loss), "read" (the tokenizer of the read stage)
and "tool".
"""

import hashlib
import os
import re
import signal
import time
from pathlib import Path

_POLL_S = 0.02


class Moments:
    """The side of the processes at work."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def at(self, kind: str, text: str) -> None:
        """Die or wait here if that is asked for; `text` holds the document."""
        if f"dies-{kind}" in text and not (self._directory / "healed").exists():
            self._die()
        numbered = re.search(r"Note (\d+)", text)
        if numbered is None:
            return
        place = f"{kind}-{numbered[1]}"
        if self._took(self._directory / f"once-{place}", self._directory / f"died-{place}"):
            self._die()
        if self._took(self._directory / f"ended-{place}", self._directory / f"died-{place}"):
            self._have_ray_end_it()
        held = self._directory / f"held-{place}.{os.getpid()}"
        if self._took(self._directory / f"hold-{place}", held):
            while held.exists():
                time.sleep(_POLL_S)

    def wrote_down(self, kind: str, text: str, request: bytes) -> None:
        """Record that `kind` was asked about a document; `request` tells its requests apart."""
        numbered = re.search(r"Note (\d+)", text)
        digest = hashlib.blake2b(text.encode() + request, digest_size=8).hexdigest()
        line = f"{kind} {os.getpid()} {numbered[1] if numbered else '?'} {digest}\n".encode()
        log = os.open(self._directory / "work.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(log, line)  # one write: lines of several processes do not mix
        finally:
            os.close(log)

    def _took(self, there: Path, taken: Path) -> bool:
        try:
            os.rename(there, taken)
        except FileNotFoundError:
            return False
        return True

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)  # until the signal is there

    def _have_ray_end_it(self) -> None:
        import ray  # what runs in no actor needs none

        ray.kill(ray.get_runtime_context().current_actor, no_restart=False)
        time.sleep(60)
