"""The end of the graph: what a task that Ray repeats leaves of a unit."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.attempts import Attempts
from pipeline.failures import KILLS_PROCESS
from pipeline.rundir import DoneMark, RunDir
from pipeline.schemas import IN_FLIGHT
from pipeline.stages.commit import CommitStage
from pipeline.units import Unit
from tests.pipeline.stages.mortal import Mortal

UNIT = Unit(unit_id="0000000", file="x.parquet", row_start=0, num_documents=1)


def block(text: str, dropped: str | None = None) -> pa.Table:
    row: dict[str, Any] = {
        "unit_id": UNIT.unit_id, "trace": json.dumps({}), "doc_id": "a", "part": 0, "text": text,
        "url": None, "date": None, "language": None, "dropped": dropped, "input_ids": [1],
        "offers": [], "positions": [], "calls": [],
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=IN_FLIGHT)


def stage_of(run_path: Path, retried: Sequence[str] = ()) -> CommitStage:
    return CommitStage(run_path, [UNIT], retried, Mortal(Attempts()), {})


def commit(stage: CommitStage, unit: pa.Table) -> DoneMark:
    async def committed() -> list[pa.Table]:
        return [row async for row in stage(unit)]

    [row] = asyncio.run(committed())
    return DoneMark.model_validate_json(row.column("mark")[0].as_py())


def files(run: RunDir) -> tuple[bytes, bytes]:
    return run.unit_path(UNIT.unit_id).read_bytes(), run.done_path(UNIT.unit_id).read_bytes()


def test_a_unit_that_is_finished_stays_as_it_is(tmp_path: Path) -> None:
    run, stage = RunDir(tmp_path), stage_of(tmp_path)
    commit(stage, block("first"))
    first = files(run)
    commit(stage, block("second"))
    assert files(run) == first


def test_a_unit_without_its_mark_is_written_again(tmp_path: Path) -> None:
    run, stage = RunDir(tmp_path), stage_of(tmp_path)
    commit(stage, block("first"))
    first, _ = files(run)
    run.done_path(UNIT.unit_id).unlink()
    commit(stage, block("second"))
    assert files(run)[0] != first
    assert run.done_mark(UNIT.unit_id) is not None


def test_what_failed_in_a_finished_unit_is_replaced_and_only_that(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    failed = commit(stage_of(tmp_path), block("first", dropped=KILLS_PROCESS))
    assert failed.failed == 1
    again = stage_of(tmp_path, retried=[UNIT.unit_id])
    retried = commit(again, block("second"))
    second = files(run)
    assert (retried.failed, run.done_mark(UNIT.unit_id)) == (0, retried)
    assert pq.read_table(run.unit_path(UNIT.unit_id)).column("text").to_pylist() == ["second"]
    run.done_path(UNIT.unit_id).unlink()  # as where a process dies between the two files
    commit(again, block("third"))
    assert files(run)[0] == second[0]
    assert run.done_mark(UNIT.unit_id) is not None
