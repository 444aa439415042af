import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.reading import list_document_files, open_documents, read_footer, read_rows
from tools.base import InputError


def write(path: Path, texts: list[str], row_group_size: int = 100) -> Path:
    ids = [f"d{number}" for number in range(len(texts))]
    table = pa.table({"doc_id": ids, "text": pa.array(texts, pa.large_string())})
    pq.write_table(table, path, row_group_size=row_group_size)
    return path


def test_rows_across_row_groups_come_in_file_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [f"text {n}" for n in range(10)], row_group_size=3)
    assert [d.text for d in read_rows(path, 2, 5)] == [f"text {n}" for n in range(2, 7)]


def test_a_file_that_became_shorter_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["one", "two"])
    with pytest.raises(InputError, match=r"rows 1 to 4 were planned, the file has 2"):
        read_rows(path, 1, 3)


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"doc_id": ["d"], "body": ["x"]}), path)
    with pytest.raises(InputError, match=r"a\.parquet: no column text; it has doc_id, body"):
        open_documents(path)


def test_a_torn_file_is_one_clear_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["one"] * 50)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file") as caught:
        open_documents(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("rows", "small"), [(3, True), (1_500, False)])
def test_a_footer_is_what_stands_before_its_length(tmp_path: Path, rows: int, small: bool) -> None:
    path = write(tmp_path / "a.parquet", ["x"] * rows, row_group_size=1)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    assert (length < 64 << 10) == small  # what one read finds
    footer = read_footer(path)
    assert footer.metadata.num_row_groups == rows
    expected = hashlib.blake2b(content[-8 - length : -8], digest_size=16).hexdigest()
    assert footer.blake2b == expected


def test_a_torn_data_page_is_one_clear_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [f"text number {n}" for n in range(500)], 500)
    content = bytearray(path.read_bytes())
    content[20:200] = bytes(180)
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.parquet: cannot read its rows"):
        read_rows(path, 0, 500)


def test_a_row_group_far_larger_than_a_unit_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["x"] * 20_001, row_group_size=20_001)
    with pytest.raises(InputError, match="row group of more than 20000 rows"):
        open_documents(path)
    open_documents(write(tmp_path / "b.parquet", ["x"] * 20_001, row_group_size=20_000))


def test_invalid_utf8_costs_its_document_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = pa.array([b"good", b"bad \xff", "na\u00efve".encode()], pa.large_binary())
    pq.write_table(
        pa.table({"doc_id": ["a", "b", "c"], "text": texts.view(pa.large_string())}), path
    )
    documents = read_rows(path, 0, 3)
    assert [d.dropped for d in documents] == [None, "invalid_utf8", None]
    assert [d.text for d in documents] == ["good", "", "na\u00efve"]


def test_a_null_text_is_a_counted_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"doc_id": ["a"], "text": pa.array([None], pa.string())}), path)
    assert [d.dropped for d in read_rows(path, 0, 1)] == ["no_text"]


def test_directories_are_walked_in_order_and_hidden_files_skipped(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    names = ["b.parquet", "sub/c.parquet", "a.parquet", ".tmp.parquet"]
    for name in names:
        write(tmp_path / name, ["x"])
    found = [str(path).removeprefix(f"{tmp_path}/") for path in list_document_files([tmp_path])]
    assert found == ["a.parquet", "b.parquet", "sub/c.parquet"]


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_without_documents_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=name):
        list_document_files([tmp_path / name])
