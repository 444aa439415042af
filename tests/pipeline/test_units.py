from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.units import plan_input, plan_units, read_manifest, write_manifest
from tools.base import InputError


def documents(path: Path, ids: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("doc_id", pa.string()), ("text", pa.string())])
    pq.write_table(pa.table({"doc_id": ids, "text": ["x"] * len(ids)}, schema=schema), path)
    return path


def test_every_row_is_in_exactly_one_unit(tmp_path: Path) -> None:
    documents(tmp_path / "a.parquet", [f"a{n}" for n in range(7)])
    documents(tmp_path / "b.parquet", [f"b{n}" for n in range(3)])
    units = plan_units([tmp_path], unit_documents=3)
    rows = [
        (Path(unit.file).name, row)
        for unit in units
        for row in range(unit.row_start, unit.row_start + unit.num_documents)
    ]
    assert rows == [("a.parquet", n) for n in range(7)] + [("b.parquet", n) for n in range(3)]
    assert [unit.num_documents for unit in units] == [3, 3, 1, 3]
    assert len({unit.unit_id for unit in units}) == 4


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    units = plan_units([documents(tmp_path / "a.parquet", ["1", "2", "3"])], unit_documents=2)
    write_manifest(tmp_path / "manifest.parquet", units)
    assert read_manifest(tmp_path / "manifest.parquet") == units


def test_a_doc_id_for_two_documents_is_refused_with_its_name(tmp_path: Path) -> None:
    documents(tmp_path / "a.parquet", ["one", "two"])
    documents(tmp_path / "b.parquet", ["three", "two"])
    with pytest.raises(InputError, match=r"b\.parquet: doc_id 'two' stands for two documents"):
        plan_units([tmp_path], unit_documents=2)


def test_an_id_that_a_part_of_another_document_would_have_is_refused(tmp_path: Path) -> None:
    documents(tmp_path / "a.parquet", ["long#12", "other#x", "lone#1"])
    documents(tmp_path / "b.parquet", ["long", "other"])
    with pytest.raises(InputError, match=r"a\.parquet: doc_id 'long#12' is what a part of"):
        plan_units([tmp_path], unit_documents=2)


def test_files_without_rows_only_are_refused(tmp_path: Path) -> None:
    documents(tmp_path / "a.parquet", [])
    with pytest.raises(InputError, match="no documents, every file has 0 rows"):
        plan_units([tmp_path], unit_documents=2)


def test_a_file_without_rows_beside_others_is_no_error(tmp_path: Path) -> None:
    documents(tmp_path / "a.parquet", [])
    documents(tmp_path / "b.parquet", ["x"])
    assert [Path(u.file).name for u in plan_units([tmp_path], unit_documents=2)] == ["b.parquet"]


def test_the_stamp_sees_other_rows_in_a_file_of_the_same_size(tmp_path: Path) -> None:
    first = documents(tmp_path / "one" / "a.parquet", ["1", "2"])
    other = documents(tmp_path / "two" / "a.parquet", ["1", "3"])
    assert first.stat().st_size == other.stat().st_size
    assert plan_input([first], 2).stamp != plan_input([other], 2).stamp


def test_the_stamp_survives_a_move_and_sees_another_file(tmp_path: Path) -> None:
    first = plan_input([documents(tmp_path / "one" / "a.parquet", ["1", "2"])], 2)
    moved = plan_input([documents(tmp_path / "two" / "a.parquet", ["1", "2"])], 2)
    longer = plan_input([documents(tmp_path / "three" / "a.parquet", ["1", "2", "3"])], 2)
    assert first.stamp == moved.stamp != longer.stamp
