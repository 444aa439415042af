"""One writer at a time in a directory of a store, where there is no lock of a file system.

Each writer puts a file of its own into `directory`, then looks who else is there: of two that
begin together at least one sees the other and withdraws. That needs nothing but a store that
lists what was written before, as S3 and Google's do. A file that its writer has not renewed for
two minutes is of a dead one; so is that of a process of this machine that is no more.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from upath import UPath

from tools.base import InputError, OutputError
from tools.places import list_files, put_bytes, read_if_there, remove, why

STALE_S = 120.0  # of clocks that agree better than that
_RENEW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lease. Times are Unix times."""

    host: str
    machine: str  # where `pid` means something: this start of this system, this container
    pid: int
    since: float
    renewed: float

    def is_dead(self, now: float) -> bool:
        """Whether this writer has ended, as far as can be told from here."""
        if now - self.renewed > STALE_S:
            return True
        return self.machine == _machine() and not Path(f"/proc/{self.pid}").exists()

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        ago = max(0, round(time.time() - self.renewed))
        return f"process {self.pid} on {self.host} since {since}, last seen {ago} s ago"


@contextmanager
def lease(directory: UPath, *, renew_s: float = _RENEW_S) -> Iterator[None]:
    """Be the one writer for the duration of the body; the lease is renewed beside it.

    Raises:
        InputError: another process writes there.
        OutputError: the store takes no file; or, after the body, another process took over,
            because this one did not renew its lease for two minutes.
    """
    name, now = f"{uuid.uuid4().hex}.json", time.time()
    mine = Holder(
        host=socket.gethostname(), machine=_machine(), pid=os.getpid(), since=now, renewed=now
    )
    _put(directory / name, mine)
    stop, lost = threading.Event(), threading.Event()
    renewing = threading.Thread(
        target=_renew, args=(directory / name, mine, renew_s, stop, lost), daemon=True
    )
    try:
        _withdraw_for_others(directory, name)
        renewing.start()
        yield
    finally:
        stop.set()
        if renewing.ident is not None:
            renewing.join()
        with suppress(OSError):
            remove(directory / name)
    if lost.is_set():
        raise OutputError(
            f"{directory.parent}: another process took this run over, because this one was not "
            "seen for two minutes; what is finished stays, run the same command again"
        )


def _withdraw_for_others(directory: UPath, name: str) -> None:
    try:
        others = {n: read_if_there(directory / n) for n in list_files(directory) if n != name}
        for other, content in others.items():
            if content is None:
                continue  # ended meanwhile
            holder = Holder(**json.loads(content))
            if not holder.is_dead(time.time()):
                raise InputError(
                    f"{directory.parent}: another process is writing to this run ({holder}); wait "
                    "for its end or choose another --run"
                )
            remove(directory / other)
    except (TypeError, ValueError):
        raise InputError(
            f"{directory / other}: not a record of a writer; remove it if nobody writes here"
        ) from None
    except OSError as error:
        raise OutputError(f"{directory}: cannot be locked: {why(error)}") from None


def _renew(
    path: UPath, mine: Holder, renew_s: float, stop: threading.Event, lost: threading.Event
) -> None:
    """Say every `renew_s` that this writer lives, until it ends or has been thought dead."""
    while not stop.wait(renew_s):
        # While the store does not answer, nobody else can be told that this writer is dead.
        with suppress(OSError, OutputError):
            if read_if_there(path) is None:
                lost.set()
                return
            _put(path, Holder(**asdict(mine) | {"renewed": time.time()}))


def _put(path: UPath, holder: Holder) -> None:
    try:
        put_bytes(path, json.dumps(asdict(holder)).encode())
    except OSError as error:
        raise OutputError(
            f"{path.parent.parent}: no run can be written there: {why(error)}"
        ) from None


def _machine() -> str:
    """What the processes that see each other have in common; "" where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex  # like no other
