"""Which files an ingest reads, in which order, and what each of them is."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pipeline.ingest.ledger import LEDGER
from pipeline.ingest.streams import ByteStream, DamagedStream
from tools.base import ConfigError, InputError


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

    path: Path
    output: str  # file name of its Parquet in the output directory
    format: SourceFormat
    size: int
    mtime_ns: int


def find_sources(
    inputs: Sequence[Path], out: Path, forced: SourceFormat | None
) -> tuple[list[Source], list[Path]]:
    """The files to read, in order, and those in directories that were passed over.

    Directories are walked in sorted order without hidden files, `*.index` sidecars and `out`.
    A file reached twice is read once.

    Raises:
        InputError: a path does not exist or cannot be read, or there is nothing to ingest.
        ConfigError: an input lies inside `out`.
    """
    sources: list[Source] = []
    skipped: list[Path] = []
    reached: set[Path] = set()
    outputs: set[str] = set()
    for path, name, explicit in _files(inputs, out.resolve()):
        if path.resolve() in reached:
            continue
        reached.add(path.resolve())
        found = forced or detect_format(path)
        if found is None and explicit:
            raise InputError(
                f"{path}: neither JSON lines nor Parquet nor WARC by name or content; "
                "if it is one, say which with --format"
            )
        if found is None:
            skipped.append(path)
            continue
        stat = path.stat()
        output = _free_name(name, outputs)
        sources.append(
            Source(
                path=path, output=output, format=found,
                size=stat.st_size, mtime_ns=stat.st_mtime_ns,
            )
        )  # fmt: skip
    if not sources:
        where = ", ".join(map(str, inputs))
        raise InputError(f"{where}: no JSON lines, Parquet or WARC file to ingest")
    return sources, skipped


def detect_format(path: Path) -> SourceFormat | None:
    """What the content says, then what the name says, then what the content looks like.

    Raises:
        InputError: the file cannot be opened or read.
    """
    try:
        with path.open("rb") as raw:
            if raw.read(4) == b"PAR1":
                return SourceFormat.PARQUET
            try:
                head = ByteStream(raw, path).readline(_PROBE_BYTES)
            except DamagedStream:
                head = b""
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
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


def _files(inputs: Sequence[Path], out: Path) -> Iterator[tuple[Path, str, bool]]:
    """(path, name for the output, whether the user named this very file)."""
    for root in inputs:
        if root.resolve().is_relative_to(out):
            raise ConfigError(f"{root}: lies inside --out {out}; choose another output directory")
        if root.is_file():
            yield root, root.name, True
        elif root.is_dir():
            for path in sorted(root.rglob("*")):
                parts = path.relative_to(root).parts
                if path.is_file() and not _passed_over(path, parts, out):
                    yield path, "__".join(parts), False
        elif root.exists():
            raise InputError(f"{root}: neither a file nor a directory")
        else:
            raise InputError(f"{root}: no such file or directory")


def _passed_over(path: Path, parts: tuple[str, ...], out: Path) -> bool:
    return (
        any(part.startswith(".") for part in parts)
        or path.suffix == ".index"
        or path.name == LEDGER
        or path.resolve().is_relative_to(out)
    )


def _free_name(name: str, taken: set[str]) -> str:
    """`name` as a Parquet file name no earlier source has, numbered if need be."""
    stem = name.removesuffix(".parquet")
    output, number = f"{stem}.parquet", 1
    while output in taken:
        number += 1
        output = f"{stem}-{number}.parquet"
    taken.add(output)
    return output
