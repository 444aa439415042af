"""What a stamp sees and what it does not read."""

import os
import shutil
from pathlib import Path

import pytest

from tools.base import InputError
from tools.file_stamp import file_stamp, files_stamp

MIB = 1 << 20


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


def change_byte(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\x01")


def test_a_small_file_is_read_whole(tmp_path: Path) -> None:
    path = sparse(tmp_path / "small", 32 * MIB)
    before = file_stamp(path)
    change_byte(path, 7_654_321)
    assert file_stamp(path) != before


@pytest.mark.parametrize("offset", [0, 256 * 1024 - 1, 1024 * MIB - 1, 1024 * MIB - 256 * 1024])
def test_head_and_tail_of_a_large_file_enter(tmp_path: Path, offset: int) -> None:
    path = sparse(tmp_path / "large", 1024 * MIB)
    before = file_stamp(path)
    change_byte(path, offset)
    assert file_stamp(path) != before


def test_a_changed_middle_of_a_large_file_enters(tmp_path: Path) -> None:
    path = sparse(tmp_path / "large", 256 * MIB)
    before = file_stamp(path)
    with path.open("r+b") as file:  # one part in 63 of the file: a block stands in any of them
        file.seek(100 * MIB)
        file.write(b"\x01" * (256 * MIB // 63))
    assert file_stamp(path) != before


def test_size_enters(tmp_path: Path) -> None:
    sizes = (0, 1, 32 * MIB, 32 * MIB + 1, 64 * MIB, 64 * MIB + 1)
    assert len({file_stamp(sparse(tmp_path / "file", size)) for size in sizes}) == len(sizes)


def test_places_and_times_do_not_enter(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    shutil.copy(tmp_path / "a", tmp_path / "b")
    os.utime(tmp_path / "b", (1, 1))
    assert file_stamp(tmp_path / "a") == file_stamp(tmp_path / "b")


def test_a_stamp_of_files_knows_which_is_which(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    before = files_stamp(tmp_path, ["a", "b"])
    assert before == files_stamp(tmp_path, ["b", "a"])
    assert before != files_stamp(tmp_path, ["a"])
    (tmp_path / "a").rename(tmp_path / "c")
    (tmp_path / "b").rename(tmp_path / "a")
    (tmp_path / "c").rename(tmp_path / "b")
    assert before != files_stamp(tmp_path, ["a", "b"])


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"weights: cannot read: No such file"):
        file_stamp(tmp_path / "weights")
