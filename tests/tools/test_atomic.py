import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.demo_runs import ROOT
from tools.atomic import remove_leftovers, write_text_atomically
from tools.base import OutputError


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    for text in ("first", "second"):
        write_text_atomically(tmp_path / "new" / "file", text)
        assert (tmp_path / "new" / "file").read_text() == text
    assert os.listdir(tmp_path / "new") == ["file"]


KILLED = """
import resource, signal, sys
from pathlib import Path
from tools.atomic import write_text_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # dies where a file grows beyond its limit
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
write_text_atomically(Path(sys.argv[1]), "x" * 2000)
"""


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("file", "other"):
        write_text_atomically(tmp_path / name, "whole")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "other")], cwd=ROOT)
    assert killed.returncode == -signal.SIGXFSZ
    assert (tmp_path / "other").read_text() == "whole"
    [left] = set(os.listdir(tmp_path)) - {"file", "other"}
    assert (tmp_path / left).stat().st_size == 1000
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]
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
