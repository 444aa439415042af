"""Files that are either there, whole, or not there: temporary name, fsync, rename."""

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools.base import OutputError

_SUFFIX = ".tmp"


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it its name.

    The temporary name is of this write alone: a writer thought dead that still writes harms
    nobody. What killed writers leave, `remove_leftovers` removes.

    Raises:
        OutputError: the file cannot be written; what stood at `path` before still stands.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        sync(temporary)
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise OutputError(
            f"{path}: cannot write: {error.strerror or error}; nothing finished is lost, make room "
            "and run the same command again"
        ) from None


def remove_leftovers(directory: Path) -> None:
    """Remove what killed writers left in `directory`, if it is there."""
    for leftover in directory.glob(f".*{_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def write_text_atomically(path: Path, text: str) -> None:
    """`path` holding `text` in UTF-8, all of it or none."""
    write_atomically(path, lambda temporary: _write_text(temporary, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Have the file or directory `path` on the disk before this returns."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
