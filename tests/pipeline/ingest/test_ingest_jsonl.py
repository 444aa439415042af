import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest.command import ingest
from pipeline.ingest.ledger import Ledger
from pipeline.ingest.streams import MAX_RECORD_BYTES
from pipeline.ingest.writing import ROW_GROUP_ROWS
from pipeline.schemas import DOCUMENTS

Run = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]
Counts = Callable[..., dict[str, dict[str, int]]]

CCNET = {
    "url": "http://example.org/a",
    "date_download": "2019-02-15T18:40:25Z",
    "digest": "sha1:AAAA",
    "length": 11,
    "nlines": 2,
    "source_domain": "example.org",
    "title": "A title",
    "raw_content": "first\nlast.",
    "cc_segment": "crawl-data/x",
    "line_ids": [1, 2],
    "language": "en",
    "language_score": 0.5,
    "perplexity": 304.6,
    "bucket": "head",
}


def _line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def test_ccnet_line_becomes_a_documents_row(tmp_path: Path, run: Run, out: Path) -> None:
    path = tmp_path / "en_head_0000.json.gz"
    path.write_bytes(gzip.compress(_line(**CCNET)))
    run(path)
    table = pq.read_table(out / "en_head_0000.json.gz.parquet")
    assert table.schema.equals(DOCUMENTS)
    assert table.to_pylist() == [
        {
            "doc_id": "sha1:AAAA",
            "text": "first\nlast.",
            "url": "http://example.org/a",
            "title": "A title",
            "date_download": "2019-02-15T18:40:25Z",
            "language": "en",
            "language_score": 0.5,
            "source_domain": "example.org",
        }
    ]


@pytest.mark.parametrize("date_field", ["timestamp", "date"])
@pytest.mark.parametrize("text_field", ["text", "content"])
def test_c4_and_fineweb_fields_are_understood(
    tmp_path: Path, run: Run, rows: Rows, text_field: str, date_field: str
) -> None:
    path = tmp_path / "c4.jsonl"
    url, text = "https://a.example/x", " kept as it is \n"
    path.write_bytes(_line(**{text_field: text, "url": url, date_field: "2019-04-25T12:57:54Z"}))
    run(path)
    [row] = rows("c4.jsonl.parquet")
    expected_id = hashlib.blake2b((url + "\n" + text).encode(), digest_size=16).hexdigest()
    assert row["doc_id"] == "blake2b:" + expected_id
    assert row["text"] == text
    assert row["date_download"] == "2019-04-25T12:57:54Z"
    assert row["source_domain"] == "a.example"
    assert row["title"] is None and row["language_score"] is None


@pytest.mark.parametrize("padding", [b"", b"\x00" * 512])
def test_all_members_of_a_gzip_are_read(
    tmp_path: Path, run: Run, rows: Rows, padding: bytes
) -> None:
    path = tmp_path / "many.json.gz"
    members = [gzip.compress(_line(text=f"document {n}")) for n in range(5)]
    half = _line(text="a line over two members")
    members += [gzip.compress(half[:9]), gzip.compress(half[9:])]
    path.write_bytes(padding.join(members))
    run(path)
    texts = [row["text"] for row in rows("many.json.gz.parquet")]
    assert texts == [*(f"document {n}" for n in range(5)), "a line over two members"]


def test_zstd_is_seen_through(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.jsonl.zst"
    frame = pa.Codec("zstd").compress(_line(text="one"), asbytes=True)
    path.write_bytes(frame + pa.Codec("zstd").compress(_line(text="two"), asbytes=True))
    run(path)
    assert [row["text"] for row in rows("a.jsonl.zst.parquet")] == ["one", "two"]


def test_byte_order_mark_carriage_returns_and_missing_last_newline(
    tmp_path: Path, run: Run, rows: Rows
) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "one"}\r\n\r\n{"text": "two"}')
    [entry] = run(path).files
    assert (entry.read, entry.kept) == (2, 2)  # the blank line is no record
    assert [row["text"] for row in rows("windows.jsonl.parquet")] == ["one", "two"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "cut', "bad_json"),
        (b"[" * 100_000, "bad_json"),
        (b'{"text": "a", "n": ' + b"9" * 5000 + b"}", "bad_json"),
        (b'["text"]', "not_an_object"),
        (b'"text"', "not_an_object"),
        (b"null", "not_an_object"),
        (b'{"url": "http://a"}', "no_text"),
        (b'{"text": null}', "no_text"),
        (b'{"text": 3}', "no_text"),
        (b'{"text": ""}', "empty_text"),
        (b'{"text": " \\n\\t\\u00a0"}', "empty_text"),
        (b'{"text": "\xff"}', "invalid_utf8"),
        (b'{"text": "\\ud800"}', "invalid_utf8"),
        (b'{"text": "a", "title": "\\udc00"}', "invalid_utf8"),
        (b'{"text": "a", "digest": "\\udc00"}', "invalid_utf8"),
        (b'{"text": "a\x00b"}', "nul_bytes"),
        (b'{"text": "a\\u0000b"}', "nul_bytes"),
        (b'{"text": "a", "url": "http://a\\u0000"}', "nul_bytes"),
        (b'{"text": "%s"}' % (b"x" * 2_000_001), "too_long"),
        (b'{"text": "' + b"\xc3\xa9" * 1_000_001 + b'"}', "too_long"),
        (b'{"text": "good"}', "duplicate_doc_id"),
    ],
)
def test_unusable_line_is_counted_by_reason(
    tmp_path: Path, counts: Counts, rows: Rows, line: bytes, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n' + line + b'\n{"text": "after"}\n')
    assert counts(path) == {"a.jsonl.parquet": {reason: 1}}
    assert [row["text"] for row in rows("a.jsonl.parquet")] == ["good", "after"]


def test_text_of_exactly_the_limit_is_kept(tmp_path: Path, counts: Counts) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(_line(text="x" * 100) + _line(text="y" * 101))
    assert counts(path, max_bytes=100) == {"a.jsonl.parquet": {"too_long": 1}}


def test_fields_of_another_type_become_null(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.jsonl"
    odd = {"url": 5, "title": ["x"], "timestamp": 1556197074, "digest": 7, "language": {}}
    path.write_bytes(
        _line(text="a", language_score="high", **odd)
        + _line(text="b", language_score=10**400, url="http://[")
        + _line(text="c", language_score=float("nan"), url="")
    )
    run(path)
    first, second, third = rows("a.jsonl.parquet")
    assert first["doc_id"].startswith("blake2b:")
    assert {value for key, value in first.items() if key not in ("doc_id", "text")} == {None}
    assert second["language_score"] is None and second["source_domain"] is None
    assert third["language_score"] is None


def test_line_longer_than_memory_allows_is_passed_over(
    tmp_path: Path, counts: Counts, rows: Rows
) -> None:
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(_line(text="before"))
        file.write(b'{"text": "')
        for _ in range(MAX_RECORD_BYTES // (1 << 20) + 5):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n')
        file.write(_line(text="after"))
    assert counts(path) == {"a.jsonl.gz.parquet": {"too_long": 1}}
    assert [row["text"] for row in rows("a.jsonl.gz.parquet")] == ["before", "after"]


def test_ten_megabyte_line_is_kept_when_allowed(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(_line(text="x" * 10_000_000))
    run(path, max_bytes=20_000_000)
    assert len(rows("a.jsonl.parquet")[0]["text"]) == 10_000_000


def test_row_groups_are_bounded(tmp_path: Path, run: Run, out: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(_line(text=str(n)) for n in range(ROW_GROUP_ROWS + 3)))
    run(path)
    metadata = pq.read_metadata(out / "a.jsonl.parquet")
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sizes == [ROW_GROUP_ROWS, 3]
    assert metadata.row_group(0).column(1).compression == "ZSTD"


def test_same_input_gives_the_same_bytes(tmp_path: Path, run: Run, out: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(_line(text=f"text {n}", url=f"http://a/{n}") for n in range(500)))
    run(path)
    ingest([path], tmp_path / "second")
    first, second = ((d / "a.jsonl.parquet").read_bytes() for d in (out, tmp_path / "second"))
    assert first == second
