"""Conversations as Parquet or JSON Lines, in directories that are whole or not there."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.parquet import let_go
from tools.atomic import sync
from tools.base import ConfigError, OutputError
from tools.places import why
from training.chat_export.options import ShardFormat

_GROUP_ROWS = 500  # bounds the conversations held in memory
_SHARD_GROUPS = 20
_EXPORTING = ".exporting"  # what is not yet whole grows in here

_INPUT = pa.struct([("type", pa.string()), ("description", pa.string())])
_PARAMETERS = pa.struct(
    [
        ("type", pa.string()),
        ("properties", pa.struct([("input", _INPUT)])),
        ("required", pa.list_(pa.string())),
    ]
)
_FUNCTION = pa.struct(
    [("name", pa.string()), ("description", pa.string()), ("parameters", _PARAMETERS)]
)
_TOOL = pa.struct([("type", pa.string()), ("function", _FUNCTION)])
# A message is a JSON object, which `datasets` gives back as it was written. As a struct every
# message would have every key, most of them null, and templates ask whether a key is there: that
# of Llama 3.1 fails on a user whose `tool_calls` are null.
CHATS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("messages", pa.list_(pa.json_()), nullable=False),
        pa.field("tools", pa.list_(_TOOL), nullable=False),
    ]
)
# What rows are made tables of: pyarrow makes no lists of objects from Python's.
_ENCODED = CHATS.set(1, pa.field("messages", pa.list_(pa.string()), nullable=False))

Row = dict[str, Any]


def write_shards(directory: Path, rows: Iterable[Row], shard_format: ShardFormat) -> None:
    """Writes train-00000, train-00001, ... to `directory`; the same rows give the same bytes.

    A row has the columns of CHATS, its messages as objects. In JSON Lines it is one object.
    """
    write = _WRITERS[shard_format]
    groups = _groups(iter(rows))
    for number in count():
        shard = islice(groups, _SHARD_GROUPS)
        first = next(shard, None)
        if first is None:
            return
        path = directory / f"train-{number:05}.{shard_format}"
        write(path, chain([first], shard))
        sync(path)


@contextmanager
def filling(out: Path) -> Iterator[Path]:
    """A directory that becomes the content of `out` when the block has ended.

    If the block raises, `out` stays empty; if the process dies, the same can be begun again.

    Raises:
        ConfigError: `out` is not empty, or not a directory.
        OutputError: the file system refuses (full disk, no permission).
    """
    exporting = out / _EXPORTING
    try:
        _check_empty(out)
        shutil.rmtree(exporting, ignore_errors=True)  # of an export that was killed
        exporting.mkdir(parents=True)
        try:
            yield exporting
            for path in sorted(exporting.iterdir()):
                path.rename(out / path.name)
            sync(out)
        finally:
            shutil.rmtree(exporting, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{out}: cannot be written: {why(error)}; when this is mended, export again"
        ) from None


def _check_empty(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out {out}: is a file; choose a new directory")
    if out.exists() and any(path.name != _EXPORTING for path in out.iterdir()):
        raise ConfigError(f"--out {out}: is not empty; choose a new directory")


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while group := list(islice(rows, _GROUP_ROWS)):
        yield group


def _write_parquet(path: Path, groups: Iterable[list[Row]]) -> None:
    writer = pq.ParquetWriter(path, CHATS, compression="zstd")
    try:
        for group in groups:
            rows = [row | {"messages": [_json(each) for each in row["messages"]]} for row in group]
            writer.write_table(pa.Table.from_pylist(rows, schema=_ENCODED).cast(CHATS))
        writer.close()
    except BaseException:
        let_go(writer)
        raise


def _write_jsonl(path: Path, groups: Iterable[list[Row]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for group in groups:
            file.writelines(f"{_json(row)}\n" for row in group)


def _json(value: Row) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_WRITERS: dict[ShardFormat, Callable[[Path, Iterable[list[Row]]], None]] = {
    ShardFormat.PARQUET: _write_parquet,
    ShardFormat.JSONL: _write_jsonl,
}
