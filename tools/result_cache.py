"""Answers of a tool on disk, shared by runs: one SQLite file for each tool and version of it.

    <directory>/<tool>-<hash of the version>.sqlite

Only what the tool said of the input is kept (ok, invalid, empty), never that it broke or was
late. Several processes of a node may use a file at once; the directory belongs on a local disk,
or on a file system with working locks. Nothing that happens to a file fails a call: one that is
damaged or not ours is set aside, and where nothing can be stored the cache is off.
"""

import fcntl
import hashlib
import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from tools.base import ToolRequest, ToolResult, ToolStatus

_APPLICATION_ID = 0x746F6F6C  # "tool" in SQLite's file header: the file is one of ours
_FORMAT = "1"
_BUSY_S = 10.0  # how long another process may hold the file
_KEYS_PER_QUERY = 500
_DIGEST_BYTES = 16
_CHECK_BYTES = 8
# SQLITE_ERROR is a statement that names what is not there: the schema is damaged.
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_KEPT = (ToolStatus.OK, ToolStatus.INVALID, ToolStatus.EMPTY)

T = TypeVar("T")

_logger = logging.getLogger(__name__)


def is_kept(result: ToolResult) -> bool:
    """Whether an answer is worth remembering: it says something of the input, not of the tool."""
    return result.status in _KEPT


class _Damaged(Exception):
    """What stands in the file was not written by this class, or not as it stands there now."""


class ResultCache:
    """The answers of one version of one tool, by request. Its methods may be called by any thread.

    `take_warning` says, once, that the file was set aside or that nothing is cached any more.
    """

    def __init__(self, directory: Path, tool: str, version: str) -> None:
        digest = hashlib.blake2b(version.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        self.path = directory / f"{tool}-{digest}.sqlite"
        self._identity = json.dumps([_FORMAT, tool, version])
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._off = self._has_set_aside = False
        self._warning: str | None = None
        self._lock = threading.Lock()

    def get(self, requests: Sequence[ToolRequest]) -> dict[ToolRequest, ToolResult]:
        """The answers that are known."""
        by_key = {_key(request): request for request in requests}

        def read(connection: sqlite3.Connection) -> dict[ToolRequest, ToolResult]:
            rows = _rows(connection, list(by_key))
            return {by_key[key]: _unpacked(key, value) for key, value in rows}

        return self._with_file(read, otherwise={})

    def put(self, answers: Mapping[ToolRequest, ToolResult]) -> None:
        """Remember the answers that are kept, all in one transaction."""
        kept = {_key(request): answer for request, answer in answers.items() if is_kept(answer)}
        rows = [(key, _packed(key, answer)) for key, answer in kept.items()]

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?)", rows)
            connection.execute("COMMIT")

        if rows:
            self._with_file(write, otherwise=None)

    def take_warning(self) -> str | None:
        """What the user should know, once."""
        warning, self._warning = self._warning, None
        return warning

    def close(self) -> None:
        """Let go of the file; the next call opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _with_file(self, work: Callable[[sqlite3.Connection], T], *, otherwise: T) -> T:
        """What `work` makes of the open file, or `otherwise` where there is none or it fails."""
        with self._lock:
            if self._off:
                return otherwise
            try:
                return work(self._connection or self._open())
            except _Damaged as error:
                self._set_aside(error)
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                    self._set_aside(error)
                else:
                    self._turn_off(error)
            except OSError as error:
                self._turn_off(error)
            return otherwise

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._all_others_waiting():
            # Autocommit: transactions are begun by hand. Every use is under our own lock.
            connection = self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            self._inode = os.stat(self.path).st_ino
            # Safe when a process is killed. After a power failure the checks below must do.
            connection.execute("PRAGMA synchronous = OFF")
            if connection.execute("PRAGMA page_count").fetchone() == (0,):
                _create(connection, self._identity)
            _check(connection, self._identity)
        return connection

    def _set_aside(self, error: Exception) -> None:
        """Rename the file, so that the next call begins a new one."""
        self.close()
        if self._has_set_aside:
            self._turn_off(error)
            return
        self._has_set_aside = True
        aside = self.path.with_suffix(".damaged")
        try:
            with self._all_others_waiting():
                if not self._is_the_file_that_was_opened():
                    return  # another process was first
                os.replace(self.path, aside)
                # SQLite would play it back into the new file.
                Path(f"{self.path}-journal").unlink(missing_ok=True)
        except OSError as failed:
            self._turn_off(failed)
            return
        self._warn(f"{self.path}: damaged, or no cache of this tool ({error}); kept as {aside}")

    def _is_the_file_that_was_opened(self) -> bool:
        return self.path.exists() and os.stat(self.path).st_ino == self._inode

    def _turn_off(self, error: Exception) -> None:
        self.close()
        self._off = True
        self._warn(f"{self.path}: {error}; results of this tool are not cached on disk any more")

    def _warn(self, text: str) -> None:
        self._warning = f"tool_cache: {text}"
        _logger.warning(self._warning)

    @contextmanager
    def _all_others_waiting(self) -> Iterator[None]:
        """Files are made, opened and renamed by one process at a time."""
        with open(self.path.with_suffix(".lock"), "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _create(connection: sqlite3.Connection, identity: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute("CREATE TABLE identity (identity TEXT NOT NULL)")
    connection.execute("INSERT INTO identity VALUES (?)", (identity,))
    connection.execute(
        "CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
    )
    connection.execute("COMMIT")


def _check(connection: sqlite3.Connection, identity: str) -> None:
    """Raises _Damaged unless the file is the cache of this tool and version."""
    if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION_ID,):
        raise _Damaged("not a cache of tool results")
    if connection.execute("SELECT identity FROM identity").fetchone() != (identity,):
        raise _Damaged("of another tool or version")


def _rows(connection: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        some = keys[start : start + _KEYS_PER_QUERY]
        marks = ",".join("?" * len(some))
        query = f"SELECT key, value FROM results WHERE key IN ({marks})"
        with closing(connection.execute(query, some)) as cursor:
            yield from cursor


def _key(request: ToolRequest) -> bytes:
    date = None if request.date is None else request.date.isoformat()
    page = [request.page] if request.page else []  # files from before there were pages stay valid
    # ASCII: a sampled input may hold half of a surrogate pair.
    text = json.dumps([request.input, date, *page], ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def _packed(key: bytes, answer: ToolResult) -> bytes:
    value = json.dumps([answer.status, answer.result, answer.error], ensure_ascii=True).encode()
    return _checksum(key, value) + value


def _unpacked(key: bytes, packed: bytes) -> ToolResult:
    """The answer; raises _Damaged where a bit of it has changed."""
    checksum, value = packed[:_CHECK_BYTES], packed[_CHECK_BYTES:]
    if checksum != _checksum(key, value):
        raise _Damaged("a row has changed since it was written")
    status, result, error = json.loads(value)
    return ToolResult(status=ToolStatus(status), result=result, error=error)


def _checksum(key: bytes, value: bytes) -> bytes:
    return hashlib.blake2b(key + value, digest_size=_CHECK_BYTES).digest()
