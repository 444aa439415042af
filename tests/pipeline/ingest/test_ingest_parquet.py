import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ingest.ledger import Ledger
from tools.base import InputError

Run = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]
Counts = Callable[..., dict[str, dict[str, int]]]


def test_columns_are_found_in_any_order(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "fineweb.parquet"
    columns = {"n": [1], "date": ["2020-01-02"], "text": ["a b"], "url": ["http://x.org/"]}
    pq.write_table(pa.table(columns), path)
    run(path)
    [row] = rows("fineweb.parquet")
    assert (row["text"], row["url"], row["date_download"]) == ("a b", "http://x.org/", "2020-01-02")


@pytest.mark.parametrize(
    ("values", "column_type", "expected"),
    [
        ([dt.datetime(2020, 1, 2, 3, 4, 5, 678)], pa.timestamp("us"), "2020-01-02T03:04:05Z"),
        ([1577934245000000001], pa.timestamp("ns"), "2020-01-02T03:04:05Z"),
        ([1577934245], pa.timestamp("s", tz="America/New_York"), "2020-01-02T03:04:05Z"),
        ([dt.date(2020, 1, 2)], pa.date32(), "2020-01-02"),
        ([dt.date(2020, 1, 2)], pa.date64(), "2020-01-02"),
        ([None], pa.null(), None),
    ],
)
def test_dates_become_iso_text_in_utc(
    tmp_path: Path, run: Run, rows: Rows, values: list[Any], column_type: pa.DataType, expected: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "date": pa.array(values, column_type)}), path)
    run(path)
    assert rows("a.parquet")[0]["date_download"] == expected


@pytest.mark.parametrize(
    "column_type",
    [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()],
)
def test_every_kind_of_text_column_is_read(
    tmp_path: Path, run: Run, rows: Rows, column_type: pa.DataType
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"content": pa.array(["\u00e9t\u00e9"], column_type)}), path)
    run(path)
    assert rows("a.parquet")[0]["text"] == "\u00e9t\u00e9"


def test_dictionary_column_is_read(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.parquet"
    language = pa.array(["en", "de", "en"]).dictionary_encode()
    pq.write_table(pa.table({"text": ["a", "b", "c"], "language": language}), path)
    run(path)
    assert [row["language"] for row in rows("a.parquet")] == ["en", "de", "en"]


def test_bad_rows_are_counted_by_reason(tmp_path: Path, counts: Counts, rows: Rows) -> None:
    path = tmp_path / "a.parquet"
    text = [b"good", None, b" ", b"\xff\xfe", b"a\x00b", b"x" * 51, b"good"]
    invalid = pa.array(text, pa.binary()).view(pa.string())  # a string column that breaks its word
    pq.write_table(pa.table({"text": invalid}), path)
    assert counts(path, max_bytes=50) == {
        "a.parquet": {
            "duplicate_doc_id": 1,
            "empty_text": 1,
            "invalid_utf8": 1,
            "no_text": 1,
            "nul_bytes": 1,
            "too_long": 1,
        }
    }
    assert [row["text"] for row in rows("a.parquet")] == ["good"]


def test_doc_id_column_is_kept(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "doc_id": ["mine"]}), path)
    run(path)
    assert rows("a.parquet")[0]["doc_id"] == "mine"


def test_missing_text_column_names_the_file_and_its_columns(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["a"], "url": ["b"]}), path)
    with pytest.raises(InputError) as caught:
        run(path)
    assert str(caught.value) == (
        f"{path}: no text column: expected one of raw_content, text, content, "
        "the file has body, url"
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": [1]}, "column text is int64, expected text"),
        ({"text": ["a"], "url": [[1]]}, r"column url is list<\w+: int64>, expected text"),
        ({"text": ["a"], "language_score": ["x"]}, "language_score is string, expected a number"),
    ],
)
def test_column_of_a_wrong_type_is_named(
    tmp_path: Path, run: Run, columns: dict[str, list[Any]], message: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match=message):
        run(path)


def test_column_that_occurs_twice_is_named(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"]), path)
    with pytest.raises(InputError, match="column text occurs 2 times"):
        run(path)


def test_parquet_without_rows_keeps_nothing(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), path)
    with pytest.raises(InputError) as caught:
        run(path)
    assert str(caught.value) == f"no document kept: 0 records read from {path}; the input is empty"


def test_torn_parquet_leaves_nothing_behind(tmp_path: Path, run: Run, out: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"text {n}" for n in range(5000)]}), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file: "):
        run(path)
    assert [entry.name for entry in out.iterdir()] == ["ingest.json"]


def test_documents_of_a_file_that_breaks_later_are_free_for_other_files(
    tmp_path: Path, run: Run, rows: Rows
) -> None:
    broken, good = tmp_path / "a.parquet", tmp_path / "b.jsonl"
    table = pa.table({"text": [f"text {n} " + "x" * 50 for n in range(2000)]})
    pq.write_table(table, broken, row_group_size=1000, compression="zstd", use_dictionary=False)
    data = bytearray(broken.read_bytes())
    second = pq.read_metadata(broken).row_group(1).column(0)
    start = second.data_page_offset + 40
    data[start : start + 1000] = b"\xff" * 1000
    broken.write_bytes(data)
    good.write_text('{"text": "%s"}\n' % ("text 0 " + "x" * 50))
    with pytest.raises(InputError, match=r"a\.parquet"):
        run(broken, good)
    assert len(rows("b.jsonl.parquet")) == 1
