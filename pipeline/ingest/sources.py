"""Which files an ingest reads, in which order, and what each of them is."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from pipeline.ingest.ledger import LEDGER
from pipeline.ingest.streams import ByteStream, DamagedStream
from tools.base import ConfigError, InputError
from tools.places import (
    Place,
    absolute,
    change_stamp,
    file_info,
    is_remote,
    list_files,
    open_to_read,
    store_errors,
    why,
)


class SourceFormat(StrEnum):
    """What a file is taken for. gzip and zstd are seen through in all but Parquet."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    WARC = "warc"


_JSON_OBJECT = re.compile(rb'(\xef\xbb\xbf)?[ \t]*\{[ \t]*"')
_WARC_NAME = re.compile(r"\.(warc|wet|wat)(\.|$)")
_COMPRESSIONS = (".gz", ".zst")
_JSON_SUFFIXES = (".json", ".jsonl", ".ndjson")
_PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An input file and the stamp that says whether it changed."""

    path: Place
    output: str  # file name of its Parquet in the output directory
    format: SourceFormat
    size: int
    mtime_ns: int  # tools.places.change_stamp


def find_sources(
    inputs: Sequence[Place], out: Place, forced: SourceFormat | None
) -> tuple[list[Source], list[Place]]:
    """The files to read, in order, and those in directories that were passed over.

    Directories are walked in sorted order without hidden files, `*.index` sidecars and `out`.
    A file reached twice is read once.

    Raises:
        InputError: a path does not exist or cannot be read, or there is nothing to ingest.
        ConfigError: an input lies inside `out`.
    """
    sources: list[Source] = []
    skipped: list[Place] = []
    reached: set[Place] = set()
    outputs: set[str] = set()
    for file in _files(inputs, absolute(out)):
        path = file.path
        if absolute(path) in reached:
            continue
        reached.add(absolute(path))
        found = forced or detect_format(path)
        if found is None and file.explicit:
            raise InputError(
                f"{path}: neither JSON lines nor Parquet nor WARC by name or content; "
                "if it is one, say which with --format"
            )
        if found is None:
            skipped.append(path)
            continue
        sources.append(
            Source(
                path=path,
                output=_free_name(file.name, outputs),
                format=found,
                size=file.info["size"],
                mtime_ns=change_stamp(file.info),
            )
        )
    if not sources:
        where = ", ".join(map(str, inputs))
        raise InputError(f"{where}: no JSON lines, Parquet or WARC file to ingest")
    return sources, skipped


def detect_format(path: Place) -> SourceFormat | None:
    """What the content says, then what the name says, then what the content looks like.

    Raises:
        InputError: the file cannot be opened or read.
    """
    try:
        with store_errors(path), open_to_read(path) as raw:
            if raw.read(4) == b"PAR1":
                return SourceFormat.PARQUET
            try:
                head = ByteStream(raw, path).readline(_PROBE_BYTES)
            except DamagedStream:
                head = b""
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None
    name = path.name.lower()
    for compression in _COMPRESSIONS:
        name = name.removesuffix(compression)
    if head.startswith(b"WARC/"):
        return SourceFormat.WARC
    if name.endswith(".parquet"):
        return SourceFormat.PARQUET
    if name.endswith(_JSON_SUFFIXES):
        return SourceFormat.JSONL
    if _WARC_NAME.search(name):
        return SourceFormat.WARC
    return SourceFormat.JSONL if _JSON_OBJECT.match(head) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: Place
    name: str  # for the output
    explicit: bool  # the user named this very file
    info: Mapping[str, Any]


def _files(inputs: Sequence[Place], out: Place) -> Iterator[_File]:
    for root in inputs:
        if _is_inside(root, out):
            raise ConfigError(f"{root}: lies inside --out {out}; choose another output directory")
        info = _info(root)
        if info["type"] == "file":
            yield _File(path=root, name=root.name, explicit=True, info=info)
        elif info["type"] == "directory":
            for name, found in _below(root):
                path, parts = root / name, PurePosixPath(name).parts
                if not _passed_over(path, parts, out):
                    yield _File(path=path, name="__".join(parts), explicit=False, info=found)
        else:
            raise InputError(f"{root}: neither a file nor a directory")


def _info(path: Place) -> Mapping[str, Any]:
    try:
        info = file_info(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None
    if info is None:
        raise InputError(f"{path}: no such file or directory")
    return info


def _below(root: Place) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every file below a directory by its name from there, in order."""
    if is_remote(root):
        try:
            yield from list_files(root).items()
        except OSError as error:
            raise InputError(f"{root}: cannot be read: {why(error)}") from None
        return
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(root)), _info(path)


def _passed_over(path: Place, parts: tuple[str, ...], out: Place) -> bool:
    return (
        any(part.startswith(".") for part in parts)
        or path.suffix == ".index"
        or path.name == LEDGER
        or _is_inside(path, out)
    )


def _is_inside(path: Place, directory: Place) -> bool:
    inner, outer = str(absolute(path)), str(directory).rstrip("/")
    return inner == outer or inner.startswith(outer + "/")


def _free_name(name: str, taken: set[str]) -> str:
    """`name` as a Parquet file name no earlier source has, numbered if need be."""
    stem = name.removesuffix(".parquet")
    output, number = f"{stem}.parquet", 1
    while output in taken:
        number += 1
        output = f"{stem}-{number}.parquet"
    taken.add(output)
    return output
