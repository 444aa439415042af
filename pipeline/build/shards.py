"""Dataset directories that grow aside, and a mark that stands while they are whole.

On a disk new directories take the place of old ones by renaming. A store cannot rename: there
shards are put one by one, and without the mark the directories may be a mixture of two builds.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from upath import UPath

from pipeline.parquet import let_go
from pipeline.schemas import DATASET
from tools.atomic import how_to_mend, sync
from tools.base import OutputError
from tools.places import Place, is_remote, list_files, put_file, remove, why

SHARD_ROWS = 10_000
_GROUP_ROWS = 500  # bounds the documents held in memory
_BUILDING = ".building"  # new directories grow in here
_REPLACED = ".replaced"  # and the ones they replace die in here


class ShardWriter:
    """Writes DATASET rows to part-00000.parquet, part-00001.parquet, ... of a directory.

    Every shard but the last has exactly `shard_rows` rows; the same rows give the same bytes.
    No rows give one empty shard.
    """

    def __init__(self, directory: Path, shard_rows: int) -> None:
        directory.mkdir(parents=True)
        self._directory, self._shard_rows = directory, shard_rows
        self._num_shards, self._rows_in_shard = 0, 0
        self._waiting: list[dict[str, Any]] = []
        self._shard = self._next_shard()

    def add(self, row: dict[str, Any]) -> None:
        if self._rows_in_shard == self._shard_rows:
            self.close()
            self._shard, self._rows_in_shard = self._next_shard(), 0
        self._waiting.append(row)
        self._rows_in_shard += 1
        if len(self._waiting) == _GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._shard.close()
        sync(self._path)

    def abandon(self) -> None:
        """Let go of a shard that is not used, and may have failed."""
        let_go(self._shard)

    def _flush(self) -> None:
        if self._waiting:
            self._shard.write_table(pa.Table.from_pylist(self._waiting, schema=DATASET))
            self._waiting = []

    def _next_shard(self) -> pq.ParquetWriter:
        self._path = self._directory / f"part-{self._num_shards:05d}.parquet"
        self._num_shards += 1
        return pq.ParquetWriter(self._path, DATASET, compression="zstd")


@contextmanager
def replacing(
    out: Place, names: Sequence[str], *, mark: str, shard_rows: int
) -> Iterator[list[ShardWriter]]:
    """A ShardWriter for each directory `out/name`; the old ones stay until the block has ended.

    If the block raises, everything is as before. After it the file `out/mark` is removed, then the
    new directories take the place of the old ones, and the caller writes the mark: while it
    stands, the directories are whole and of one build. What dies or fails in between leaves them
    without a mark, each old or new (or missing) on a disk, each possibly mixed in a store.

    Raises:
        OutputError: the file system or store refuses (full disk, no permission).
    """
    try:
        with _workshop(out) as building:
            with ExitStack() as open_writers:
                yield [
                    open_writers.enter_context(_writing(ShardWriter(building / name, shard_rows)))
                    for name in names
                ]
            if is_remote(out):
                _upload(building, out, names, mark)
            else:
                _swap(out, names, mark)
    except OSError as error:
        again = "build again when this is mended"
        if is_remote(out):
            again = f"{how_to_mend(out, error)} and build again"
        raise OutputError(
            f"{out}: the dataset cannot be written: {why(error)}; nothing annotated is lost, "
            f"{again}"
        ) from None


@contextmanager
def _writing(writer: ShardWriter) -> Iterator[ShardWriter]:
    try:
        yield writer
        writer.close()
    except BaseException:
        writer.abandon()
        raise


@contextmanager
def _workshop(out: Place) -> Iterator[Path]:
    """Where new directories grow: beside the old ones, or on this machine for those in a store."""
    if is_remote(out):
        with tempfile.TemporaryDirectory(prefix="toolformer-") as directory:
            yield Path(directory)
        return
    building = out / _BUILDING
    try:
        for leftover in (building, out / _REPLACED):  # of a build that was killed
            if leftover.exists():
                shutil.rmtree(leftover)
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _swap(out: Path, names: Sequence[str], mark: str) -> None:
    """Moves the new directories to where the old ones stand, and deletes the old ones."""
    replaced = out / _REPLACED
    replaced.mkdir()
    (out / mark).unlink(missing_ok=True)
    for name in names:
        if (out / name).exists():
            (out / name).rename(replaced / name)
        (out / _BUILDING / name).rename(out / name)
    sync(out)
    shutil.rmtree(replaced)


def _upload(building: Path, out: UPath, names: Sequence[str], mark: str) -> None:
    """Puts the new shards where the old ones are, each whole, and removes old ones beyond them."""
    remove(out / mark)
    try:
        for name in names:
            new = {shard.name: shard for shard in sorted((building / name).iterdir())}
            for shard_name, shard in new.items():
                put_file(shard, out / name / shard_name)
            for shard_name in list_files(out / name):
                if shard_name not in new:
                    remove(out / name / shard_name)
    except OSError as error:
        raise OutputError(
            f"{out}: the dataset there is incomplete, its {mark} removed: {why(error)}; "
            f"{how_to_mend(out, error)} and `build` again, which makes it whole; nothing annotated "
            "is lost"
        ) from None
