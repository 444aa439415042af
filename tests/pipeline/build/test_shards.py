"""A dataset appears whole or not at all."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.build.shards import ShardWriter, replacing
from tools.base import OutputError

ROW = {"doc_id": "new", "text": "x", "input_ids": [1], "calls": [], "source_text_hash": "0"}
NAMES = ("dataset", "dataset_plain")


def write(out: Path, doc_id: str) -> None:
    with replacing(out, NAMES, mark="build.json", shard_rows=10) as writers:
        for writer in writers:
            writer.add(ROW | {"doc_id": doc_id})
    (out / "build.json").write_text(doc_id)


def doc_ids(out: Path, name: str) -> list[str]:
    ids: list[str] = pq.read_table(out / name).column("doc_id").to_pylist()
    return ids


def test_a_second_build_replaces_the_first_and_leaves_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, "old")
    write(tmp_path, "new")
    assert [doc_ids(tmp_path, name) for name in NAMES] == [["new"], ["new"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build.json", *NAMES]


def test_a_failed_build_leaves_the_old_dataset_and_its_mark(tmp_path: Path) -> None:
    write(tmp_path, "old")
    with (
        pytest.raises(ZeroDivisionError),
        replacing(tmp_path, NAMES, mark="build.json", shard_rows=10) as writers,
    ):
        writers[0].add(ROW)
        raise ZeroDivisionError
    assert [doc_ids(tmp_path, name) for name in NAMES] == [["old"], ["old"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build.json", *NAMES]


KILLED = """
import os, signal, sys
from pathlib import Path
from pipeline.build.shards import replacing
with replacing(Path(sys.argv[1]), ("dataset", "dataset_plain"), mark="build.json",
               shard_rows=1) as writers:
    for writer in writers:
        for _ in range(3):
            writer.add(dict(doc_id="new", text="x", input_ids=[1], calls=[], source_text_hash="0"))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_build_leaves_the_old_dataset_and_does_not_hinder_the_next(
    tmp_path: Path,
) -> None:
    write(tmp_path, "old")
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / ".building").exists()
    assert [doc_ids(tmp_path, name) for name in NAMES] == [["old"], ["old"]]
    assert (tmp_path / "build.json").read_text() == "old"
    write(tmp_path, "new")
    assert [doc_ids(tmp_path, name) for name in NAMES] == [["new"], ["new"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build.json", *NAMES]


def test_a_swap_that_stops_half_way_leaves_no_mark(tmp_path: Path) -> None:
    write(tmp_path, "old")
    with (
        pytest.raises(OutputError, match="the dataset cannot be written"),
        replacing(tmp_path, NAMES, mark="build.json", shard_rows=10) as writers,
    ):
        for writer in writers:
            writer.add(ROW)
        (tmp_path / "dataset_plain").rename(tmp_path / "elsewhere")
        (tmp_path / "dataset_plain").symlink_to(tmp_path / "nowhere")  # no directory replaces it
    assert doc_ids(tmp_path, "dataset") == ["new"]
    assert not (tmp_path / "build.json").exists()


def test_a_refusing_file_system_is_one_clear_line(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError) as caught,
        replacing(tmp_path, NAMES, mark="build.json", shard_rows=10),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(caught.value) == (
        f"{tmp_path}: the dataset cannot be written: No space left on device; nothing annotated "
        "is lost, build again when this is mended"
    )


def test_a_full_disk_is_one_clear_line_and_leaves_the_old_dataset(small_disk: Path) -> None:
    write(small_disk, "old")
    with (
        pytest.raises(OutputError, match=r"be written: .*No space left on device; nothing"),
        replacing(small_disk, NAMES, mark="build.json", shard_rows=10) as writers,
    ):
        for row in range(10):
            writers[0].add(ROW | {"doc_id": str(row), "text": os.urandom(1 << 14).hex()})
    assert [doc_ids(small_disk, name) for name in NAMES] == [["old"], ["old"]]
    assert sorted(path.name for path in small_disk.iterdir()) == ["build.json", *NAMES]


def test_a_writer_without_rows_writes_an_empty_shard(tmp_path: Path) -> None:
    ShardWriter(tmp_path / "dataset", shard_rows=10).close()
    assert pq.read_table(tmp_path / "dataset" / "part-00000.parquet").num_rows == 0
