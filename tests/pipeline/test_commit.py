"""The end of the graph: what a task that Ray repeats leaves of a unit."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.rundir import RunDir
from pipeline.schemas import IN_FLIGHT
from pipeline.stages.commit import UnitSink
from pipeline.units import Unit

UNIT = Unit(unit_id="0000000", file="x.parquet", row_start=0, num_documents=1)


def block(text: str) -> pa.Table:
    row: dict[str, Any] = {
        "unit_id": UNIT.unit_id, "trace": json.dumps({}), "doc_id": "a", "part": 0, "text": text,
        "url": None, "date": None, "language": None, "dropped": None, "input_ids": [1],
        "offers": [], "positions": [], "calls": [],
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=IN_FLIGHT)


def files(run: RunDir) -> tuple[bytes, bytes]:
    return run.unit_path(UNIT.unit_id).read_bytes(), run.done_path(UNIT.unit_id).read_bytes()


def test_a_unit_that_is_finished_stays_as_it_is(tmp_path: Path) -> None:
    run, sink = RunDir(tmp_path), UnitSink(tmp_path, [UNIT])
    sink.write([block("first")], None)
    first = files(run)
    sink.write([block("second")], None)
    assert files(run) == first


def test_a_unit_without_its_mark_is_written_again(tmp_path: Path) -> None:
    run, sink = RunDir(tmp_path), UnitSink(tmp_path, [UNIT])
    sink.write([block("first")], None)
    first, _ = files(run)
    run.done_path(UNIT.unit_id).unlink()
    sink.write([block("second")], None)
    assert files(run)[0] != first
    assert run.done_mark(UNIT.unit_id) is not None
