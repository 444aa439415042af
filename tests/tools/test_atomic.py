import os
from pathlib import Path

import pytest

from tools.atomic import remove_leftovers, write_atomically, write_text_atomically
from tools.base import OutputError


def test_a_failing_writer_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_text_atomically(path, "first")

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(5, "Input/output error")

    with pytest.raises(OutputError, match="Input/output error"):
        write_atomically(path, fail)
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    write_text_atomically(tmp_path / "file", "whole")

    def die(temporary: Path) -> None:
        temporary.write_text("half a fi")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "other", die)
    assert len(os.listdir(tmp_path)) == 2
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["file"]
    remove_leftovers(tmp_path / "nothing")


def test_a_full_disk_is_one_clear_line_and_keeps_the_finished(small_disk: Path) -> None:
    finished = small_disk / "finished"
    write_text_atomically(finished, "finished")
    with pytest.raises(OutputError, match=r"big: cannot write: No space left on device"):
        write_text_atomically(small_disk / "big", "x" * 200_000)
    assert finished.read_text() == "finished"
    assert os.listdir(small_disk) == ["finished"]


def test_a_directory_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OutputError, match="Is a directory"):
        write_text_atomically(tmp_path / "file", "text")
