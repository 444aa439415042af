"""Lines that outlive their writer, whatever is in them."""

from io import FileIO
from pathlib import Path

import pytest

from tools.base import InputError
from training.generate.json_lines import add_line, read_lines


def written(path: Path, *texts: str) -> Path:
    with FileIO(path, "a") as file:
        for text in texts:
            add_line(file, {"text": text})
    return path


def test_half_of_a_surrogate_pair_comes_back(tmp_path: Path) -> None:
    path = written(tmp_path / "lines", "é \ud83d", 'a "quoted" \\u00e9\n')
    found, end = read_lines(path)
    assert [line["text"] for line in found] == ["é \ud83d", 'a "quoted" \\u00e9\n']
    assert end == path.stat().st_size
    assert "é".encode() in path.read_bytes()  # readable as it is


def test_half_a_line_is_behind_the_end(tmp_path: Path) -> None:
    path = written(tmp_path / "lines", "one", "two")
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"text": "thr')
    found, end = read_lines(path)
    assert (len(found), end) == (2, whole)


@pytest.mark.parametrize("damage", [b"\0" * 12, b"[1]", b"\xff", b"[" * 100_000])
def test_a_whole_line_that_is_no_object_is_named(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path / "lines", "one")
    path.write_bytes(path.read_bytes() + damage + b"\n")
    with pytest.raises(InputError, match=f"{path}: line 2 is damaged"):
        read_lines(path)
