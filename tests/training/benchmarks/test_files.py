from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.files import json_lines_of, json_of, text_of


def test_a_missing_file_says_where_it_can_be_had(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    with pytest.raises(InputError) as caught:
        text_of(path, from_where="https://example.org/data")
    message = f"{path}: no such file; it can be had from https://example.org/data"
    assert str(caught.value) == message


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        text_of(tmp_path, from_where="nowhere")


def test_bytes_that_are_no_text_are_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    with pytest.raises(InputError, match=r"dev\.jsonl:2: not UTF-8$"):
        list(json_lines_of(path, from_where="nowhere"))


def test_lines_keep_their_numbers_and_their_line_separators(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_bytes('"one\u2028line"\r\n\r\n[3]'.encode())
    lines = list(json_lines_of(path, from_where="nowhere"))
    assert lines == [(f"{path}:1", "one\u2028line"), (f"{path}:3", [3])]


def test_what_is_nested_too_deeply_is_named(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text("[1]\n" + "[" * 200_000)
    with pytest.raises(InputError, match=r"dev\.jsonl:2: .*nested too deeply"):
        list(json_lines_of(path, from_where="nowhere"))
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match=r"dev\.jsonl: .*nested too deeply"):
        json_of(path, from_where="nowhere")


def test_a_torn_line_and_a_torn_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(InputError, match=r"dev\.jsonl:2: not JSON: "):
        list(json_lines_of(path, from_where="nowhere"))
    path.write_text('{"a":\n\n 1')
    with pytest.raises(InputError, match=r"dev\.jsonl:3: not JSON: "):
        json_of(path, from_where="nowhere")
