import json
import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.rundir import RunDir, commit_unit
from pipeline.schemas import SCORED
from pipeline.units import Unit
from tests.pipeline.build.scored_units import row
from tests.pipeline.made_runs import commit, planned_run
from tools.base import ContractError, InputError
from tools.usage import ToolUsage

UNIT = Unit(unit_id="0000000", file="x.parquet", row_start=0, num_documents=2)
MARK: dict[str, Any] = {"seconds": {"sample": 1.5}, "tokens": {"head_rows": 3}, "finished_at": 9.0}


def scored(parts: list[tuple[str, int, str | None]]) -> pa.Table:
    rows = [
        {
            "doc_id": doc_id, "part": part, "text": "t", "url": None, "date": None,
            "language": None, "dropped": dropped, "input_ids": [1], "offers": [],
            "positions": [], "calls": [],
        }
        for doc_id, part, dropped in parts
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=SCORED)


TWO_DOCUMENTS = [("a#1", 1, None), ("a#2", 2, None), ("b", 0, "empty_text")]


def test_a_committed_unit_is_done_and_counts_documents_not_parts(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    mark = run.done_mark(UNIT.unit_id)
    assert mark is not None
    assert (mark.documents, mark.rows, mark.dropped) == (2, 3, {"empty_text": 1})
    assert mark.tokens == {"head_rows": 3}
    assert run.marked_units() == {UNIT.unit_id}


def test_the_unit_file_has_no_trace_of_when_it_was_made(tmp_path: Path) -> None:
    files = []
    for name, seconds in (("one", 1.0), ("two", 2.0)):
        run = RunDir(tmp_path / name)
        commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK | {"seconds": {"sample": seconds}})
        files.append(run.unit_path(UNIT.unit_id).read_bytes())
    assert files[0] == files[1]


def test_a_unit_with_a_lost_document_is_not_committed(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with pytest.raises(ContractError, match=r"got 1 documents, expected 2"):
        commit_unit(run, UNIT, scored([("a", 0, None)]), MARK)
    assert run.marked_units() == set()
    assert not run.unit_path(UNIT.unit_id).exists()


def test_a_mark_without_its_file_is_not_done(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    run.unit_path(UNIT.unit_id).unlink()
    assert run.done_mark(UNIT.unit_id) is None


def test_a_shortened_file_is_not_done(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    path = run.unit_path(UNIT.unit_id)
    path.write_bytes(path.read_bytes()[:-1])
    assert run.done_mark(UNIT.unit_id) is None


def test_a_file_without_its_mark_is_not_done_and_is_replaced(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    path = run.unit_path(UNIT.unit_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"torn")
    assert run.done_mark(UNIT.unit_id) is None
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    assert pq.read_table(path).num_rows == 3


def test_a_torn_mark_is_not_done(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    mark = run.done_path(UNIT.unit_id)
    mark.write_text(mark.read_text()[:40])
    assert run.done_mark(UNIT.unit_id) is None


def test_two_writers_cannot_hold_one_run(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path), RunDir(tmp_path)
    with (
        first.lock(),
        pytest.raises(InputError, match="another process is writing"),
        second.lock(),
    ):
        pass
    with second.lock():
        pass


@pytest.mark.parametrize("content", [None, "{}", "not json"])
def test_a_directory_that_is_no_run_is_one_clear_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=r"run\.json") as caught:
        RunDir(tmp_path).config()
    assert "\n" not in str(caught.value)


def test_done_marks_are_plain_json(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    commit_unit(run, UNIT, scored(TWO_DOCUMENTS), MARK)
    assert json.loads(run.done_path(UNIT.unit_id).read_text())["unit_id"] == "0000000"


def test_files_of_finished_units_are_named_without_holding_all_marks(tmp_path: Path) -> None:
    num_units, large = 100, 20_000
    run = planned_run(tmp_path / "run", num_units)
    rows = [row("a", "x"), row("b", "x")]
    mark = commit(run, 0, rows, tools={"T": ToolUsage(warnings=["w" * large])})
    content = run.unit_path("0000000").read_bytes()
    for unit in run.units():
        run.unit_path(unit.unit_id).write_bytes(content)
        again = mark.model_copy(update={"unit_id": unit.unit_id})
        run.done_path(unit.unit_id).write_text(again.model_dump_json())
    tracemalloc.start()
    try:
        files = run.finished_unit_files()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files == [run.unit_path(f"{number:07}") for number in range(num_units)]
    assert peak < num_units * large / 2
