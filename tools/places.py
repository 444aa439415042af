"""Places: paths of this machine, or of a store that fsspec reaches (s3://, gs://, hf://, ...).

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

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}  # of pyproject.toml
_AZURE = {"az", "abfs", "abfss"}
# Stores that show a file when all of it has arrived. Elsewhere fsspec writes to the final name, or,
# as in a repository of hf://, each file written is a commit.
_FOR_OUTPUT = {"s3", "s3a", "gs", "gcs", "memory"} | _AZURE
# Of other schemes universal_pathlib forgets parts of the address (hdfs://, sftp://, github://), or
# has no class.
_KNOWN = _FOR_OUTPUT | {"hf", "http", "https"}
# What the stores say of a file that changes with its content, the surest first.
_STAMPS = (
    "ETag", "etag", "blob_id", "xet_hash", "md5Hash", "LastModified", "Last-Modified", "mtime",
    "created",
)  # fmt: skip
_BUILTIN = {"builtins", "pyarrow", "tools", "pipeline"}

T = TypeVar("T")
R = TypeVar("R")


def place(text: str | Place) -> Place:
    """The place `text` names: an address like s3://bucket/name, else a path of this machine.

    Raises:
        ConfigError: an address that is not of a known store or would not be kept as it is, or
            whose package is not installed.
    """
    # What is absolute cannot be taken for an address, whatever names it holds.
    address = str(text)
    if isinstance(text, Path) or address.startswith("/"):
        return text if isinstance(text, Path) else Path(address)
    if address.startswith("file:///"):
        return Path(address.removeprefix("file://"))
    if "://" not in address and "::" not in address:
        return Path(address)
    scheme = _SCHEME.match(address)
    if scheme is None or scheme.group(1) not in _KNOWN or "::" in address:
        raise ConfigError(
            f"{address}: not an address that can be used; expected {_listed(_KNOWN)}; a path of "
            "this machine that looks like one has to be absolute"
        )
    return _in_store(text, scheme.group(1))


def _in_store(address: str | UPath, protocol: str) -> UPath:
    try:
        fsspec.get_filesystem_class(protocol)
        path = UPath(address)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        hint = f"pip install '.[{extra}]'" if extra else one_line(error)
        raise ConfigError(
            f"{address}: {protocol}:// needs a package that is missing: {hint}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{address}: cannot be used as a place: {one_line(error)}") from None
    if str(path).rstrip("/") != str(address).rstrip("/"):
        raise ConfigError(f"{address}: would be taken for {path}; write it so if that is meant")
    return path


def check_output(path: Place) -> None:
    """See that files can be put at `path` whole or not at all.

    Raises:
        ConfigError: its store shows files while they are written, or only lets us read.
    """
    if is_remote(path) and path.protocol not in _FOR_OUTPUT:
        raise ConfigError(
            f"{path}: {path.protocol}:// is for input, no output can be safe there; expected a "
            f"directory of this machine or {_listed(_FOR_OUTPUT)}"
        )


def _listed(protocols: set[str]) -> str:
    *others, last = (f"{protocol}://" for protocol in sorted(protocols - {"memory"}))
    return f"{', '.join(others)} or {last}"


def _validated(value: Any) -> Place:
    if not isinstance(value, str | Path | UPath):
        raise ValueError(f"expected a path or an address like s3://bucket/name, got {value!r}")
    try:
        return place(value)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _validated_output(value: Any) -> Place:
    path = _validated(value)
    try:
        check_output(path)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return path


# A place as a field of a pydantic model, and one that is written to; JSON has its text.
_AS_TEXT = PlainSerializer(str, when_used="json")
PlaceField = Annotated[Place, PlainValidator(_validated), _AS_TEXT]
OutputField = Annotated[Place, PlainValidator(_validated_output), _AS_TEXT]


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
        ConfigError: as `check_output`.
    """
    check_output(path)
    with store_errors(path):
        path.fs.pipe_file(path.path, data)


def put_file(source: Path, path: UPath) -> None:
    """The file `source` of this machine in a store as `path`, whole or not there.

    Raises:
        OSError: the store does not take it; what was there still stands.
        ConfigError: as `check_output`.
    """
    check_output(path)
    replacing = {"overwrite": True} if path.protocol in _AZURE else {}  # others do without asking
    with store_errors(path):
        path.fs.put_file(str(source), path.path, **replacing)


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
