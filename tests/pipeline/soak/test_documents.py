from pathlib import Path

import pyarrow.parquet as pq

from pipeline.documents.offers import DocumentFacts, offered_tools
from pipeline.reading import list_document_files, read_rows
from pipeline.soak import documents
from pipeline.soak.documents import document_ids, write_documents, write_many
from tools.calendar_date import date_from_url


def rows(directory: Path) -> list[dict[str, object]]:
    files = list_document_files([directory])
    return [row for path in files for row in pq.read_table(path).to_pylist()]


def test_the_same_numbers_give_the_same_documents_and_more_of_them_begin_alike(
    tmp_path: Path,
) -> None:
    for name, number, seed in (("a", 2_500, 0), ("b", 2_500, 0), ("c", 1_200, 0), ("d", 1_200, 1)):
        write_documents(tmp_path / name, number, seed=seed)
    first = rows(tmp_path / "a")
    assert rows(tmp_path / "b") == first
    assert rows(tmp_path / "c") == first[:1_200]
    assert rows(tmp_path / "d") != first[:1_200]
    assert [row["doc_id"] for row in first] == list(document_ids(2_500))


def test_some_documents_are_offered_each_tool_and_some_none(tmp_path: Path) -> None:
    write_documents(tmp_path / "d", 1_000)
    offered = {"Calculator": 0, "Calendar": 0, "none": 0}
    [path] = list_document_files([tmp_path / "d"])
    for document in read_rows(path, 0, 1_000):
        date = date_from_url(document.url, not_after=None) if document.url else None
        facts = DocumentFacts(text=document.text, doc_id=document.doc_id, date=date)
        tools = [tool for tool, _ in offered_tools(facts, ["Calculator", "Calendar"])]
        for tool in tools or ["none"]:
            offered[tool] += 1
    assert 200 < offered["Calculator"] < 400
    assert 400 < offered["Calendar"] < 600
    assert 250 < offered["none"] < 500


def test_files_and_row_groups_have_the_sizes_they_say(tmp_path: Path) -> None:
    write_many(tmp_path / "m", 100_001)
    groups = [
        [file.metadata.row_group(g).num_rows for g in range(file.metadata.num_row_groups)]
        for file in map(pq.ParquetFile, list_document_files([tmp_path / "m"]))
    ]
    assert groups == [[10_000] * 10, [1]]
    assert documents.FILE_DOCUMENTS % 1_000 == 0
