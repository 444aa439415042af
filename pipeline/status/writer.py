"""Whether somebody is writing to a run, without getting in the way."""

import fcntl
import json
import time
from pathlib import Path

from pipeline.rundir import RunDir
from tools.lease import Holder
from tools.places import is_remote, list_files, read_if_there


def writer_of(run: RunDir) -> str | None:
    """Who holds the lock of a run, as far as can be seen from here; None where nobody does.

    On a disk that is only "another process": the system does not say which.

    Raises:
        OSError: the store cannot be asked, or the lock not be looked at.
    """
    if not is_remote(run.path):
        return "another process" if _is_locked(run.path / ".lock") else None
    for name in list_files(run.path / "_lock"):
        content = read_if_there(run.path / "_lock" / name)
        try:
            holder = None if content is None else Holder(**json.loads(content))
        except (TypeError, ValueError):
            continue  # `annotate` says what is wrong with it
        if holder is not None and holder.holding and not holder.is_dead(time.time()):
            return str(holder)
    return None


def _is_locked(path: Path) -> bool:
    """Whether the file is locked. For that it is locked for an instant, shared: only a writer that
    comes in these microseconds would be refused.
    """
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return False
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
