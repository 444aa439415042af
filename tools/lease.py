"""One writer at a time in a directory of a store, where there is no lock of a file system.

Each writer puts a file of its own into `directory`, then looks who else is there: of two that
begin together at least one sees the other and withdraws. That needs nothing but a store that
lists what was written before, as S3 and Google's do. A file that its writer has not renewed for
two minutes is of a dead one; so is that of a process of this machine that is no more. A writer
that was thought dead finds its file gone, or beside that of who came after it, and is told.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from upath import UPath

from tools.base import InputError, OutputError, ToolformerError
from tools.places import check_output, list_files, put_bytes, read_if_there, remove, why

STALE_S = 120.0  # of clocks that agree better than that
_RENEW_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a lease, or (not `holding`) is looking whether it may. Times are Unix times."""

    host: str
    machine: str  # where `pid` means something: this start of this system, this container
    pid: int
    pid_start: str  # of the process, so that it is not taken for a later one with its number
    since: float
    renewed: float
    holding: bool

    def is_dead(self, now: float) -> bool:
        """Whether this writer has ended, as far as can be told from here."""
        if now - self.renewed > STALE_S:
            return True
        return self.machine == _machine() and _has_ended(self.pid, self.pid_start)

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        ago = max(0, round(time.time() - self.renewed))
        return f"process {self.pid} on {self.host} since {since}, last seen {ago} s ago"


class Lease:
    """A writer's place in `directory`."""

    def __init__(self, directory: UPath) -> None:
        self._directory, self._name = directory, f"{uuid.uuid4().hex}.json"
        now = time.time()
        self._mine = Holder(
            host=socket.gethostname(), machine=_machine(), pid=os.getpid(),
            pid_start=_state_and_start(os.getpid())[1], since=now, renewed=now, holding=False,
        )  # fmt: skip
        self._lost = False

    def check(self) -> None:
        """See that no other process has had reason to take over; asks nobody.

        Raises:
            OutputError: this one was not seen for two minutes, or another one did.
        """
        if self._lost or self._is_stale():
            raise OutputError(
                f"{self._directory.parent}: another process may have taken this run over, because "
                "this one was not seen for two minutes; what is finished stays, run the same "
                "command again"
            )

    def take(self) -> None:
        """Hold the lease.

        Raises:
            InputError, OutputError: as `lease`.
        """
        self._put(self._mine)
        try:
            for other, holder in self._others():
                if not holder.is_dead(time.time()):
                    raise InputError(
                        f"{self._directory.parent}: another process is writing to this run "
                        f"({holder}); wait for its end or choose another --run"
                    )
                remove(other)
        except OSError as error:
            raise OutputError(f"{self._directory}: cannot be locked: {why(error)}") from None
        self._put(replace(self._mine, holding=True, renewed=time.time()))

    def renew(self) -> None:
        """Say that this writer lives, unless it was thought dead: then `check` says so.

        Raises:
            OSError, ToolformerError: the store does not answer, or holds what is no lease.
        """
        if self._lost or self._is_stale() or read_if_there(self._directory / self._name) is None:
            self._lost = True
        else:
            self._put(replace(self._mine, renewed=time.time()))
            # Another writer may have taken over since the file was looked for: then it was made
            # anew. Who only looks whether it may is about to withdraw, and who holds since earlier
            # than this writer was thought dead itself.
            self._lost = any(
                other.holding and other.since > self._mine.since and not other.is_dead(time.time())
                for _, other in self._others()
            )

    def give_back(self) -> None:
        with suppress(OSError):
            remove(self._directory / self._name)

    def _is_stale(self) -> bool:
        return time.time() - self._mine.renewed > STALE_S

    def _put(self, mine: Holder) -> None:
        try:
            put_bytes(self._directory / self._name, json.dumps(asdict(mine)).encode())
        except OSError as error:
            raise OutputError(
                f"{self._directory.parent}: no run can be written there: {why(error)}"
            ) from None
        self._mine = mine

    def _others(self) -> Iterator[tuple[UPath, Holder]]:
        """The other writers with their files."""
        for name in list_files(self._directory):
            content = read_if_there(self._directory / name) if name != self._name else None
            if content is None:
                continue  # ended meanwhile
            try:
                yield self._directory / name, Holder(**json.loads(content))
            except (TypeError, ValueError):
                raise InputError(
                    f"{self._directory / name}: not a record of a writer; remove it if nobody "
                    "writes here"
                ) from None


@contextmanager
def lease(directory: UPath, *, renew_s: float = _RENEW_S) -> Iterator[Lease]:
    """Be the one writer for the duration of the body; the lease is renewed beside it.

    Raises:
        ConfigError: as `check_output`.
        InputError: another process writes there.
        OutputError: the store takes no file; or, after the body, as `Lease.check`.
    """
    check_output(directory)
    held, stop = Lease(directory), threading.Event()
    renewing = threading.Thread(target=_keep, args=(held, renew_s, stop), daemon=True)
    try:
        held.take()
        renewing.start()
        yield held
    finally:
        stop.set()
        if renewing.ident is not None:
            renewing.join()
        held.give_back()
    held.check()


def _keep(held: Lease, renew_s: float, stop: threading.Event) -> None:
    """Renew a lease until its end or its loss."""
    while not stop.wait(renew_s):
        # While the store does not answer, nobody else can be told that this writer is dead.
        with suppress(OSError, ToolformerError):
            held.renew()


def _has_ended(pid: int, start: str) -> bool:
    """Whether the process of this machine that began at `start` is no more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # of another user
    state, now_there = _state_and_start(pid)
    return state in "ZX" or now_there != start


def _state_and_start(pid: int) -> tuple[str, str]:
    """What the system says of a process: a letter ("Z": ended, its parent has not asked how), and
    when it began; of one that is no more that it is dead.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X", ""
    fields = stat.rpartition(")")[2].split()  # the name before may hold anything
    return fields[0], fields[19]


def _machine() -> str:
    """What the processes that see each other have in common; "" where that cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return uuid.uuid4().hex  # like no other
