"""A file of JSON lines that grows while a batch is generated, and is there at its end, whole.

Until then it has another name: what is killed goes on where it was, if it is the same batch.
"""

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from tools.atomic import sync
from tools.base import OutputError
from training.generate.identity import digest_of
from training.generate.json_lines import add_line, read_lines

_SUFFIX = ".growing"
_logger = logging.getLogger(__name__)


class GrowingFile:
    """The lines of a batch, in its order."""

    def __init__(self, file: FileIO, growing: Path, path: Path) -> None:
        self._file, self._growing, self._path = file, growing, path

    def earlier(self) -> list[dict[str, Any]]:
        """The lines an earlier command has written; before any is added. A torn one is cut off.

        Raises:
            InputError: they cannot be read, or one is damaged.
        """
        lines, end = read_lines(self._growing)
        self._file.truncate(end)
        return lines

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a line, which outlives this process.

        Raises:
            OutputError: it cannot be written.
        """
        try:
            add_line(self._file, line)
        except OSError as error:
            raise _cannot_write(self._path, error) from None


@contextmanager
def growing_file(path: Path, batch: Mapping[str, Any]) -> Iterator[GrowingFile]:
    """The file that becomes `path` when the context ends without an error.

    `batch` is all that its lines depend on: lines of another one are not gone on with.

    Raises:
        OutputError: `path` is there, cannot be written, or is being written by another command.
    """
    check_free(path)
    growing = path.with_name(f".{path.name}.{digest_of(batch)}{_SUFFIX}")
    try:
        file = FileIO(growing, "a+")
    except OSError as error:
        raise _cannot_write(path, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{path}: another command is writing it") from None
        except OSError as error:
            raise _cannot_write(path, error) from None
        for other in sorted(set(path.parent.glob(f".{path.name}.*{_SUFFIX}")) - {growing}):
            _logger.warning("%s has lines of another batch, as of other parameters", other)
        try:
            yield GrowingFile(file, growing, path)
        finally:
            if not os.fstat(file.fileno()).st_size:
                growing.unlink()
        try:
            sync(growing)
            os.replace(growing, path)
            sync(path.parent)
        except OSError as error:
            raise _cannot_write(path, error) from None


def check_free(path: Path) -> None:
    """Refuse a file that is there, or cannot be, before any work is done.

    Raises:
        OutputError: it is one of these.
    """
    if path.exists():
        raise OutputError(f"{path}: is there already; remove it, or name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot write: {error.strerror or error}") from None
    if not os.access(path.parent, os.W_OK):
        raise OutputError(f"{path}: cannot write in {path.parent}")


def _cannot_write(path: Path, error: OSError) -> OutputError:
    return OutputError(
        f"{path}: cannot write: {error.strerror or error}; what is generated so far is kept, and "
        "the same command goes on with it"
    )
