"""Files that are either there, whole, or not there.

On a disk by a temporary name, fsync and rename; in an object store by one request, which shows
nothing before all of it has arrived.
"""

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.base import OutputError
from tools.places import Place, is_remote, put_bytes, put_file, why

_SUFFIX = ".tmp"


def write_atomically(path: Place, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file of this machine, then have it where `path` says.

    The temporary name is of this write alone: a writer thought dead that still writes harms
    nobody. What killed writers leave beside a `path` on a disk, `remove_leftovers` removes.

    Raises:
        OutputError: the file cannot be written; what stood at `path` before still stands.
    """
    with _refusals(path):
        if is_remote(path):
            with tempfile.TemporaryDirectory(prefix="toolformer-") as directory:
                temporary = Path(directory) / path.name
                write(temporary)
                put_file(temporary, path)
        else:
            _replace(path, write)


def write_bytes_atomically(path: Place, data: bytes) -> None:
    """`path` holding `data`, all of it or none.

    Raises:
        OutputError: the file cannot be written; what stood at `path` before still stands.
    """
    with _refusals(path):
        if is_remote(path):
            put_bytes(path, data)
        else:
            _replace(path, lambda temporary: _write_bytes(temporary, data))


def write_text_atomically(path: Place, text: str) -> None:
    """`path` holding `text` in UTF-8, all of it or none."""
    write_bytes_atomically(path, text.encode("utf-8"))


def remove_leftovers(directory: Place) -> None:
    """Remove what killed writers left in `directory`, if it is there; a store shows none of it."""
    if is_remote(directory):
        return
    for leftover in directory.glob(f".*{_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the file or directory `path` on the disk before this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@contextmanager
def _refusals(path: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        mend = "see that the store takes it" if is_remote(path) else "make room"
        raise OutputError(
            f"{path}: cannot write: {why(error)}; nothing finished is lost, {mend} and run the "
            "same command again"
        ) from None
