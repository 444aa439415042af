"""A dataset to a directory of this machine, or of a store."""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.push.parcel import PUSH_MARK, Parcel, is_shard
from tools.atomic import sync, write_bytes_atomically
from tools.base import ConfigError, OutputError
from tools.places import Place, is_remote, list_files, put_file, read_if_there, remove, why

_RUN_RECORD = "run.json"


class _Mark(BaseModel):
    """push.json: while it says `complete`, the files at a target are whole and of one build."""

    model_config = ConfigDict(extra="forbid")

    complete: bool
    files: dict[str, str]  # blake2b-128 by name


def push_to_place(parcel: Parcel, target: Place) -> bool:
    """Makes `target` hold the parcel; returns whether it did not.

    Each file appears whole. What dies in between leaves a mixture whose push.json says that it is
    not complete; the same push goes on.

    Raises:
        ConfigError: a run is there, or a file that would be replaced and that no push wrote.
        InputError: the parcel cannot be read or changed meanwhile.
        OutputError: the target cannot be written, or is not there.
    """
    try:
        return _push(parcel, target)
    except OSError as error:
        raise OutputError(
            f"{target}: cannot be written: {why(error)}; when this is mended, push again"
        ) from None


def _push(parcel: Parcel, target: Place) -> bool:
    before, sizes = _mark(target), _sizes(target)
    if _RUN_RECORD in sizes:
        raise ConfigError(f"{target}: is a run (it holds {_RUN_RECORD}); choose an empty place")
    theirs = parcel.in_the_way(sizes) if before is None else None
    if theirs is not None:
        raise ConfigError(
            f"{target}: holds a {theirs} that no push wrote (there is no {PUSH_MARK}); choose "
            "an empty place"
        )
    known = before.files if before is not None else {}
    changed: dict[str, str] = {}
    unchanged: dict[str, str] = {}

    def put(name: str, source: Path | bytes) -> None:
        digest, size = _digest(source)
        if known.get(name) == digest and sizes.get(name) == size:
            unchanged[name] = digest
            return
        if not changed:
            _write_mark(target, _Mark(complete=False, files=dict(known)))
        _put(source, target / name)
        changed[name] = digest
        # A push that dies here finds what it did, and repeats nothing.
        _write_mark(target, _Mark(complete=False, files=known | changed))

    for name in parcel.shards:
        with parcel.shard(name) as path:
            put(name, path)
    parcel.still_whole()
    for name, text in parcel.texts.items():
        put(name, text.encode())
    stale = [name for name in sizes if is_shard(name) and name not in parcel.names]
    for name in stale:
        remove(target / name)
    now = _Mark(complete=True, files=dict(sorted((unchanged | changed).items())))
    anything = bool(changed or stale) or now != before
    if anything:
        _write_mark(target, now)
    return anything


def _mark(target: Place) -> _Mark | None:
    content = read_if_there(target / PUSH_MARK)
    if content is None:
        return None
    try:
        return _Mark.model_validate_json(content)
    except ValidationError:
        raise ConfigError(
            f"{target / PUSH_MARK}: not written by a push; choose an empty place"
        ) from None


def _write_mark(target: Place, mark: _Mark) -> None:
    write_bytes_atomically(target / PUSH_MARK, json.dumps(mark.model_dump(), indent=1).encode())


def _sizes(target: Place) -> Mapping[str, int]:
    """The files of the target that a push may have written, with their sizes."""
    if is_remote(target):
        return {name: info["size"] for name, info in list_files(target).items()}
    found = [*target.glob("*"), *target.glob("dataset*/part-*.parquet")]
    return {
        path.relative_to(target).as_posix(): path.stat().st_size for path in found if path.is_file()
    }


def _digest(source: Path | bytes) -> tuple[str, int]:
    """blake2b-128 in hexadecimal, and the size in bytes."""
    if isinstance(source, bytes):
        return hashlib.blake2b(source, digest_size=16).hexdigest(), len(source)
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16))
    return digest.hexdigest(), source.stat().st_size


def _put(source: Path | bytes, path: Place) -> None:
    if isinstance(source, bytes):
        write_bytes_atomically(path, source)
    elif is_remote(path):
        put_file(source, path)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            shutil.copyfile(source, temporary)
            sync(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)
