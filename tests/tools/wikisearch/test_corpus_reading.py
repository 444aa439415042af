"""Reading files of KILT pages and DPR passages."""

import gzip
import json
from pathlib import Path

import pytest

from tools.base import InputError
from tools.wikisearch.corpus import ReadCounts, estimate_num_passages, read_passages
from tools.wikisearch.passages import Passage

TEXT = "The tilde is a small wavy mark."


def kilt_line(title: str, *paragraphs: str) -> bytes:
    record = {"wikipedia_id": None, "wikipedia_title": title, "text": [title, *paragraphs]}
    return json.dumps(record).encode() + b"\n"


def read(*paths: Path) -> tuple[list[Passage], ReadCounts]:
    counts = ReadCounts()
    return list(read_passages(paths, counts)), counts


def test_every_line_is_a_page_or_is_skipped_for_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(
        kilt_line("Tilde", TEXT)
        + b"{torn\n"
        + b"[" * 100_000
        + b"\n"
        + b'"a string"\n'
        + b'{"wikipedia_title": "bad byte \xff", "text": []}\n'
        + b'{"text": ["no title here at all"]}\n'
        + b'{"wikipedia_title": "  ", "text": ["blank title"]}\n'
        + b'{"wikipedia_title": 7, "text": ["number for title"]}\n'
        + kilt_line("Only a title")
        + b'{"wikipedia_title": "No text"}\n'
        + b'{"wikipedia_title": "Numbers", "text": [1, 2]}\n'
        + kilt_line("Too short", "Two words.")
        + b"\n"
    )
    passages, counts = read(path)
    assert passages == [Passage(title="Tilde", section=(), text=TEXT)]
    assert counts.skipped == {"bad_json": 4, "no_title": 3, "no_text": 3, "no_passage": 1}
    assert (counts.num_lines, counts.num_pages, counts.num_passages) == (12, 1, 1)
    assert counts.num_short_snippets == 1
    assert counts.num_bytes == path.stat().st_size


def test_a_dpr_passage_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "dpr.jsonl"
    text = " ".join(["word"] * 100)
    path.write_text(json.dumps({"id": "1299", "title": "The Ashes", "text": text}))
    assert read(path)[0] == [Passage(title="The Ashes", section=(), text=text)]


def test_gzip_is_known_by_its_content_and_may_have_members(tmp_path: Path) -> None:
    path = tmp_path / "pages.dat"
    members = [gzip.compress(kilt_line(title, TEXT)) for title in ("A", "B")]
    path.write_bytes(b"".join(members))
    passages, counts = read(path)
    assert [passage.title for passage in passages] == ["A", "B"]
    assert counts.num_bytes == path.stat().st_size


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b'{"wikipedia_title": "T\\ud83d", "text": ["a b c d \\udc00"]}\n')
    assert read(path)[0] == [Passage(title="T?", section=(), text="a b c d ?")]


def test_a_torn_gzip_file_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl.gz"
    whole = gzip.compress(b"".join(kilt_line(f"Title {i}", TEXT) for i in range(1000)))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"pages\.jsonl\.gz: the compressed data is torn after"):
        read(path)


def test_a_file_without_a_passage_stops_the_reading(tmp_path: Path) -> None:
    good, other, empty = tmp_path / "good", tmp_path / "other", tmp_path / "empty"
    good.write_bytes(kilt_line("Tilde", TEXT))
    other.write_text('{"url": "u", "raw_content": "some web page"}\nplain text\n')
    empty.write_bytes(b"")
    with pytest.raises(
        InputError, match=r"other: no passage in 2 lines \(bad_json 1, no_title 1\)"
    ):
        read(good, other)
    with pytest.raises(InputError, match="empty: no passage in 0 lines; expected"):
        read(empty)


def test_a_missing_file_and_a_directory_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read: No such file"):
        read(tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot read: Is a directory"):
        read(tmp_path)


def test_the_number_of_passages_is_estimated_from_the_first_lines(tmp_path: Path) -> None:
    page = kilt_line(
        "T", f"{'word ' * 40}end.", "Section::::A.", "One two three four five."
    ).decode()
    small, large, packed = tmp_path / "small", tmp_path / "large", tmp_path / "packed"
    small.write_text(page + "{torn\n")
    large.write_text(page * 5000)
    packed.write_bytes(gzip.compress(large.read_bytes()))
    assert estimate_num_passages([small]) == 2
    assert estimate_num_passages([large]) == pytest.approx(10_000, rel=0.05)
    assert estimate_num_passages([large, small]) == estimate_num_passages([large]) + 2
    assert estimate_num_passages([packed]) > 0
    with pytest.raises(InputError, match="cannot read"):
        estimate_num_passages([tmp_path / "missing"])
