"""Files in a store are there whole or not at all, whatever dies on the way."""

import subprocess
import sys
from pathlib import Path

import pytest
from upath import UPath

from tests.object_store import Breaking, Server
from tests.pipeline.demo_runs import ROOT
from tools.atomic import remove_leftovers, write_atomically, write_text_atomically
from tools.base import OutputError
from tools.places import list_files, read_bytes


def test_a_file_is_replaced_and_nothing_is_left_beside_it(bucket: UPath) -> None:
    for text in ("first", "second"):
        write_text_atomically(bucket / "one" / "file", text)
        assert read_bytes(bucket / "one" / "file") == text.encode()
    write_atomically(bucket / "one" / "other", lambda temporary: _write(temporary, 1 << 20))
    assert {name: info["size"] for name, info in list_files(bucket / "one").items()} == {
        "file": 6, "other": 1 << 20
    }  # fmt: skip
    remove_leftovers(bucket / "one")
    assert len(list_files(bucket / "one")) == 2


def test_a_failing_writer_puts_nothing(bucket: UPath) -> None:
    path = bucket / "failing" / "file"
    write_text_atomically(path, "first")

    def fail(temporary: Path) -> None:
        _write(temporary, 1000)
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match=r"failing/file: cannot write: No space left on device"):
        write_atomically(path, fail)
    assert list(list_files(bucket / "failing")) == ["file"] and read_bytes(path) == b"first"


@pytest.mark.parametrize("write", ["write_text_atomically", "write_atomically"])
def test_a_killed_upload_shows_nothing_and_loses_nothing(
    bucket: UPath, s3_server: Server, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    path = bucket / write / "file"
    write_text_atomically(path, "first")
    way = Breaking(s3_server.port, after=100_000)
    for key, value in s3_server.environment(way.port).items():
        monkeypatch.setenv(key, value)
    uploading = (
        "import sys; from upath import UPath; from tools import atomic\n"
        "text = 'x' * 1_000_000\n"
        "if sys.argv[2] == 'write_atomically':\n"
        "    atomic.write_atomically(UPath(sys.argv[1]), lambda path: path.write_text(text))\n"
        "else:\n"
        "    atomic.write_text_atomically(UPath(sys.argv[1]), text)"
    )
    writer = subprocess.Popen([sys.executable, "-c", uploading, str(path), write], cwd=ROOT)
    assert way.reached.wait(120) and writer.poll() is None
    assert read_bytes(path) == b"first"
    writer.kill()
    writer.wait()
    way.close()
    assert list(list_files(bucket / write)) == ["file"] and read_bytes(path) == b"first"


def test_a_store_that_refuses_is_one_clear_line(bucket: UPath) -> None:
    says = r"file: cannot write: The specified bucket does not exist; nothing finished is lost"
    with pytest.raises(OutputError, match=says):
        write_text_atomically(UPath("s3://no-such-bucket/file"), "text")


def _write(path: Path, num_bytes: int) -> None:
    path.write_bytes(b"x" * num_bytes)
