"""Places: paths of this machine, or of any store that fsspec knows (s3://, gs://, hf://, ...).

A place of this machine is a pathlib.Path, any other a UPath. The functions here do the same for
both and raise OSError for both. Nothing is remembered of a store between two calls: other
processes write to it.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, BinaryIO, TypeAlias, TypeVar, cast

import fsspec
from pydantic import PlainSerializer, PlainValidator
from typing_extensions import TypeIs
from upath import UPath

from tools.base import ConfigError, ToolformerError, one_line

Place: TypeAlias = Path | UPath

NUM_THREADS = 16  # requests to a store at once: they wait for its answers

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}  # of pyproject.toml
# In these a directory is nothing but the beginning of names; elsewhere it has to be made.
_WITHOUT_DIRECTORIES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "hf", "memory"}
# What the stores say of a file that changes with its content, the surest first.
_STAMPS = ("ETag", "etag", "blob_id", "xet_hash", "md5Hash", "LastModified", "mtime", "created")
_BUILTIN = {"builtins", "pyarrow", "tools", "pipeline"}

T = TypeVar("T")
R = TypeVar("R")


def place(text: str | Place) -> Place:
    """The place `text` names.

    Raises:
        ConfigError: a scheme nobody knows, or one whose package is not installed.
    """
    scheme = _SCHEME.match(str(text))
    if scheme is None:
        return text if isinstance(text, Path) else Path(str(text))
    protocol = scheme.group(1)
    if protocol == "file":
        return Path(str(text).removeprefix("file://"))
    try:
        fsspec.get_filesystem_class(protocol)
        return UPath(text)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        hint = f"pip install '.[{extra}]'" if extra else one_line(error)
        raise ConfigError(
            f"{text}: {protocol}:// needs a package that is missing: {hint}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{text}: cannot be used as a place: {one_line(error)}") from None


def _validated(value: Any) -> Place:
    if not isinstance(value, str | Path | UPath):
        raise ValueError(f"expected a path or an address like s3://bucket/name, got {value!r}")
    try:
        return place(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


# A place as a field of a pydantic model; JSON has its text.
PlaceField = Annotated[Place, PlainValidator(_validated), PlainSerializer(str, when_used="json")]


def is_remote(path: Place) -> TypeIs[UPath]:
    """Whether `path` is not of this machine's file system."""
    return not isinstance(path, Path)


def absolute(path: Place) -> Place:
    """The same place by a name that holds in every directory."""
    return path if is_remote(path) else path.resolve()


@contextmanager
def store_errors(path: Place) -> Iterator[None]:
    """Let what a store raises leave as an OSError with one line: stores have errors of their own.

    Raises:
        OSError: the store refuses, is not there, or has no such file or bucket.
    """
    try:
        yield
    except ToolformerError:
        raise
    except OSError as error:
        if not is_remote(path) or error.strerror:
            raise
        kind = type(error) if type(error).__module__ == "builtins" else OSError
        raise kind(error.errno, _reason(error, path)) from error
    except Exception as error:
        root = type(error).__module__.partition(".")[0]
        if not is_remote(path) or (root in _BUILTIN and type(error) is not ValueError):
            raise
        raise OSError(None, _reason(error, path)) from error


def _reason(error: Exception, path: UPath) -> str:
    if isinstance(error, FileNotFoundError) and not _says_more(error, path):
        return "no such file"
    return one_line(error) or type(error).__name__


def _says_more(error: FileNotFoundError, path: UPath) -> bool:
    """Whether something else than this file is missing, as its bucket: else its name is said."""
    return path.path.rstrip("/") not in str(error)


def why(error: Exception) -> str:
    """What an error says went wrong, in one line without its number."""
    return one_line(error) if not isinstance(error, OSError) else error.strerror or one_line(error)


def read_bytes(path: Place) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read; FileNotFoundError if there is none.
    """
    if not is_remote(path):
        return path.read_bytes()
    # s3fs would ask for the size first, to fetch large files in parts: ours are small.
    whole = {"max_concurrency": 1} if path.protocol in ("s3", "s3a") else {}
    with store_errors(path):
        return cast(bytes, _fresh(path).cat_file(path.path, **whole))


def read_if_there(path: Place) -> bytes | None:
    """The content of a file; None where there is none.

    Raises:
        OSError: it cannot be read, or there is no such bucket.
    """
    if file_info(path) is None:
        return None
    with suppress(FileNotFoundError):
        return read_bytes(path)
    return None


def open_to_read(path: Place, *, ahead: bool = False) -> BinaryIO:
    """The file, opened. Of a store exactly what is asked for is fetched, or, with `ahead`, blocks
    one after the other for a reader that goes from the beginning to the end.

    Raises:
        OSError: it cannot be opened. Reading can raise what `store_errors` translates.
    """
    if not is_remote(path):
        return path.open("rb")
    with store_errors(path):
        file = _fresh(path).open(path.path, "rb", cache_type="readahead" if ahead else "none")
    return cast(BinaryIO, file)


def file_info(path: Place) -> Mapping[str, Any] | None:
    """What a store, or this machine, says of `path`: at least its `type` ("file", "directory")
    and `size`; None where nothing is.

    Raises:
        OSError: the store does not answer or refuses, or has no such bucket.
    """
    if not is_remote(path):
        try:
            stat = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = "directory" if path.is_dir() else "file" if path.is_file() else "other"
        return {"type": kind, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    with store_errors(path):
        try:
            return cast(Mapping[str, Any], _fresh(path).info(path.path))
        except FileNotFoundError as error:
            if _says_more(error, path):
                raise
            return None


def change_stamp(info: Mapping[str, Any]) -> int:
    """A number that changes when the file with this `file_info` does: its time of change in ns,
    or of a store a hash of what it calls the content.
    """
    if "mtime_ns" in info:
        return int(info["mtime_ns"])
    known = [f"{name}={info[name]}" for name in _STAMPS if info.get(name)][:1]
    return int.from_bytes(hashlib.blake2b("".join(known).encode(), digest_size=7).digest(), "big")


def list_files(directory: UPath) -> dict[str, Mapping[str, Any]]:
    """Every file below a directory of a store with its `file_info`, by its name from there.

    In the order in which this machine's file system would be walked: by parts of names. Empty
    where there is nothing.

    Raises:
        OSError: the store does not answer or refuses, or has no such bucket.
    """
    prefix = directory.path.rstrip("/") + "/"
    with store_errors(directory):
        try:
            found = _fresh(directory).find(directory.path, detail=True)
        except FileNotFoundError as error:
            if _says_more(error, directory):
                raise
            return {}
    # Stores may have files named like directories, as marks that there is one.
    files = {
        name.removeprefix(prefix): info
        for name, info in found.items()
        if name.startswith(prefix) and not name.endswith("/")
    }
    return {name: files[name] for name in sorted(files, key=lambda n: PurePosixPath(n).parts)}


def put_bytes(path: UPath, data: bytes) -> None:
    """`data` in a store as `path`, by one request: whole or not there, whatever dies.

    Raises:
        OSError: the store does not take it; what was there still stands.
    """
    with store_errors(path):
        _make_parent(path)
        path.fs.pipe_file(path.path, data)


def put_file(source: Path, path: UPath) -> None:
    """The file `source` of this machine in a store as `path`, whole or not there.

    Raises:
        OSError: the store does not take it; what was there still stands.
    """
    with store_errors(path):
        _make_parent(path)
        path.fs.put_file(str(source), path.path)


def remove(path: Place) -> None:
    """See that there is no file `path`.

    Raises:
        OSError: it cannot be removed.
    """
    if not is_remote(path):
        path.unlink(missing_ok=True)
        return
    with store_errors(path), suppress(FileNotFoundError):
        path.fs.rm_file(path.path)


def in_order(function: Callable[[T], R], items: Iterable[T], *, threads: int) -> Iterator[R]:
    """`function` of each item, in the order of the items, a few ahead of who takes them."""
    remaining = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        ahead: deque[Future[R]] = deque(
            pool.submit(function, item) for item in islice(remaining, 2 * threads)
        )
        try:
            while ahead:
                result = ahead.popleft().result()
                ahead.extend(pool.submit(function, item) for item in islice(remaining, 1))
                yield result
        finally:
            for future in ahead:
                future.cancel()


def _fresh(path: UPath) -> fsspec.AbstractFileSystem:
    """The file system of `path`, which has forgotten what it listed before."""
    path.fs.invalidate_cache()
    return path.fs


def _make_parent(path: UPath) -> None:
    if path.protocol not in _WITHOUT_DIRECTORIES:
        path.fs.makedirs(path.parent.path, exist_ok=True)
