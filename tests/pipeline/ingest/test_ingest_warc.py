import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from pipeline.ingest.ledger import Ledger
from tools.base import InputError

Run = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]
Counts = Callable[..., dict[str, dict[str, int]]]


def _record(
    body: bytes, *, kind: str = "conversion", length: int | None = None, uri: str = "http://a.org/"
) -> bytes:
    # Another order than cc_net's, with the header newer files have.
    head = (
        f"WARC/1.0\r\nWARC-Identified-Content-Language: eng,deu\r\nWARC-Type: {kind}\r\n"
        f"content-type: text/plain\r\nWARC-Date: 2024-05-18T01:58:10Z\r\n"
        f"WARC-Target-URI: {uri}\r\nContent-Length: {len(body) if length is None else length}\r\n"
    )
    return head.encode() + b"\r\n" + body + b"\r\n\r\n"


def test_first_line_is_the_title_and_not_text(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.warc.wet"
    path.write_bytes(
        _record(b"Software-Info: x", kind="warcinfo")
        + _record(b"The title\nfirst line\n\nlast line\n", uri="<http://a.org/2024/05/06/x>")
    )
    [entry] = run(path).files
    [row] = rows("a.warc.wet.parquet")
    assert (entry.read, entry.kept) == (1, 1)
    assert row["title"] == "The title"
    assert row["text"] == "first line\n\nlast line"
    assert row["url"] == "http://a.org/2024/05/06/x"
    assert row["source_domain"] == "a.org"
    assert row["date_download"] == "2024-05-18T01:58:10Z"
    assert row["language"] is None


def test_compressed_records_are_read_as_warcio_reads_them(
    tmp_path: Path, run: Run, rows: Rows
) -> None:
    path = tmp_path / "CC-MAIN-0.warc.wet.gz"
    digests = [f"sha1:{letter * 32}" for letter in "ABC"]
    records = [_record(f"Title {n}\nText {n}".encode()) for n in range(3)]
    path.write_bytes(
        b"".join(
            gzip.compress(record.replace(b"\r\n\r\n", b"\r\nWARC-Block-Digest: %b\r\n\r\n" % d, 1))
            for record, d in zip(records, (digest.encode() for digest in digests), strict=True)
        )
    )
    run(path)
    read = rows("CC-MAIN-0.warc.wet.gz.parquet")
    with path.open("rb") as file:
        for row, record in zip(read, ArchiveIterator(file), strict=True):
            assert row["doc_id"] == record.rec_headers.get_header("WARC-Block-Digest")
            body = f"{row['title']}\n{row['text']}".encode()
            assert body == record.content_stream().read()
    assert [row["doc_id"] for row in read] == digests


def test_records_that_are_not_text_are_counted_by_kind(tmp_path: Path, counts: Counts) -> None:
    path = tmp_path / "a.warc.gz"
    kinds = ["response", "request", "metadata", "resource", "revisit", ""]
    body = b"HTTP/1.1 200 OK\r\n\r\n<p>x</p>"
    path.write_bytes(b"".join(gzip.compress(_record(body, kind=kind)) for kind in kinds))
    assert counts(path) == {
        "a.warc.gz.parquet": {
            "warc_metadata_not_text": 1,
            "warc_other_not_text": 3,
            "warc_request_not_text": 1,
            "warc_response_not_text": 1,
        }
    }


def test_only_responses_is_told_in_one_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(_record(b"x", kind="response"))
    with pytest.raises(InputError) as caught:
        run(path)
    assert str(caught.value) == (
        f"no document kept: 1 records read from {path}; warc_response_not_text 1"
    )


def test_unusable_texts_are_counted_by_reason(tmp_path: Path, counts: Counts) -> None:
    path = tmp_path / "a.wet"
    bodies = [b"only a title", b"t\n\xff", b"t\na\x00", b"t\n" + b"x" * 11, b"t\ngood", b"t\ngood"]
    path.write_bytes(b"".join(map(_record, bodies)))
    assert counts(path, max_bytes=10) == {
        "a.wet.parquet": {
            "duplicate_doc_id": 1,
            "empty_text": 1,
            "invalid_utf8": 1,
            "nul_bytes": 1,
            "too_long": 1,
        }
    }


@pytest.mark.parametrize("wrong", [-20, 3, 25])
def test_wrong_length_costs_no_record(tmp_path: Path, run: Run, rows: Rows, wrong: int) -> None:
    path = tmp_path / "a.wet"
    bodies = [f"title {n}\nsome text that is number {n}".encode() for n in range(3)]
    records = [_record(body) for body in bodies]
    records[1] = _record(bodies[1], length=len(bodies[1]) + wrong)
    path.write_bytes(b"".join(records))
    run(path)
    assert [row["text"] for row in rows("a.wet.parquet")] == [
        f"some text that is number {n}" for n in range(3)
    ]


def test_page_that_shows_a_record_stays_whole(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.wet"
    text = b"How a record looks:\n\nWARC/1.0\nWARC-Type: conversion\n\nThat was it."
    path.write_bytes(_record(b"title\n" + text) + _record(b"title\nnext"))
    run(path)
    assert [row["text"] for row in rows("a.wet.parquet")] == [text.decode(), "next"]


def test_missing_or_odd_length_goes_to_the_next_record(
    tmp_path: Path, run: Run, rows: Rows
) -> None:
    path = tmp_path / "a.wet"
    odd = _record(b"t\none").replace(b"Content-Length: 5", b"Content-Length: five")
    none = _record(b"t\ntwo").replace(b"Content-Length: 5\r\n", b"")
    path.write_bytes(odd + none + _record(b"t\nthree"))
    run(path)
    assert [row["text"] for row in rows("a.wet.parquet")] == ["one", "two", "three"]


def test_cut_record_is_not_kept_and_told(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.wet"
    path.write_bytes(_record(b"t\nwhole") + _record(b"t\nthis one is cut off")[:-12])
    with pytest.raises(InputError, match="truncated_warc after 1 records, of which 1 are kept"):
        run(path)
    assert [row["text"] for row in rows("a.wet.parquet")] == ["whole"]


def test_bytes_between_records_are_counted(tmp_path: Path, counts: Counts, rows: Rows) -> None:
    path = tmp_path / "a.wet"
    path.write_bytes(b"junk\nmore junk\n" + _record(b"t\ntext"))
    assert counts(path) == {"a.wet.parquet": {"corrupt_warc": 1}}
    assert len(rows("a.wet.parquet")) == 1
