"""A file that grows, is killed, goes on, and is there at its end."""

import json
from pathlib import Path

import pytest

from tools.base import OutputError
from training.generate.growing_file import growing_file

BATCH = {"prompts": ["a", "b"]}


def lines(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def begin(out: Path) -> None:
    """Write a line and die."""
    with pytest.raises(KeyboardInterrupt), growing_file(out, BATCH) as file:
        assert list(file.earlier()) == []
        file.add({"text": "\u2014"})
        raise KeyboardInterrupt


def test_the_same_batch_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.jsonl"
    begin(out)
    assert not out.exists()
    [growing] = out.parent.iterdir()
    growing.write_bytes(growing.read_bytes() + b'{"text": "to')
    with growing_file(out, BATCH) as file:
        assert list(file.earlier()) == [{"text": "\u2014"}]
        file.add({"text": "b"})
    assert lines(out) == [{"text": "\u2014"}, {"text": "b"}]
    assert list(out.parent.iterdir()) == [out]


def test_another_batch_does_not_go_on_with_it(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    begin(out)
    with growing_file(out, {"prompts": ["b", "a"]}) as file:
        assert list(file.earlier()) == []
        file.add({"text": "other"})
    assert lines(out) == [{"text": "other"}]


def test_lines_of_another_batch_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(tmp_path / "out.jsonl")
    with growing_file(tmp_path / "out.jsonl", {}) as file:
        file.add({})
    assert "has lines of another batch" in caplog.text


def test_what_is_no_fault_of_the_file_is_not_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ConnectionResetError), growing_file(tmp_path / "out.jsonl", BATCH):
        raise ConnectionResetError("the cluster went away")
    assert list(tmp_path.iterdir()) == []


def test_one_command_writes_it_at_a_time(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with growing_file(out, BATCH) as file:
        file.add({})
        with (
            pytest.raises(OutputError, match=r"out\.jsonl: another command is writing it$"),
            growing_file(out, BATCH),
        ):
            raise AssertionError("two write")
    assert lines(out) == [{}]


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.touch()
    for path, why in ((out, "is there already; remove"), (out / "more" / "x", "Not a directory")):
        with pytest.raises(OutputError, match=why), growing_file(path, BATCH):
            raise AssertionError("it is written")


def test_a_full_disk_costs_no_line_that_was_written(small_disk: Path) -> None:
    out = small_disk / "out.jsonl"
    says = r"No space left .* the same command goes on with it$"
    with pytest.raises(OutputError, match=says), growing_file(out, BATCH) as file:
        for number in range(1000):
            file.add({"number": number, "text": "x" * 1000})
    with growing_file(out, BATCH) as file:
        earlier = list(file.earlier())
        assert [line["number"] for line in earlier] == list(range(len(earlier)))
        assert 50 < len(earlier) < 128
