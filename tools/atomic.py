"""Files that are either there, whole, or not there.

On a disk by a temporary name, fsync and rename; in an object store by one request, which shows
nothing before all of it has arrived.
"""

import errno
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.base import OutputError
from tools.places import Place, is_remote, put_bytes, why

_SUFFIX = ".tmp"


def write_bytes_atomically(path: Place, data: bytes) -> None:
    """`path` holding `data`, all of it or none.

    The temporary name is of this write alone: a writer thought dead that still writes harms
    nobody. What killed writers leave beside a `path` on a disk, `remove_leftovers` removes.

    Raises:
        OutputError: the file cannot be written; what stood at `path` before still stands.
    """
    with _refusals(path):
        if is_remote(path):
            put_bytes(path, data)
        else:
            _replace(path, data)


def write_text_atomically(path: Place, text: str) -> None:
    """`path` holding `text` in UTF-8, all of it or none."""
    write_bytes_atomically(path, text.encode("utf-8"))


def remove_leftovers(directory: Place) -> None:
    """Remove what killed writers left in `directory`, if it is there; a store shows none of it."""
    if is_remote(directory):
        return
    for leftover in directory.glob(f".*{_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def how_to_mend(path: Place, error: OSError) -> str:
    """What a user can do about an `error` in writing `path`.

    What goes to a store is made on this machine first: then it may be here that there is no room.
    """
    if not is_remote(path):
        return "make room"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        directory = tempfile.gettempdir()
        return f"make room in {directory} of this machine, or name another directory by TMPDIR,"
    return "see that the store takes it"


def sync(path: Path) -> None:
    """Have the file or directory `path` on the disk before this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


@contextmanager
def _refusals(path: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot write: {why(error)}; nothing finished is lost, "
            f"{how_to_mend(path, error)} and run the same command again"
        ) from None
