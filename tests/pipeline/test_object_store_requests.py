"""What is asked of a store, counted: each costs time and money there."""

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from pipeline.reading import list_document_files, read_rows
from pipeline.rundir import RunDir, commit_unit
from pipeline.schemas import SCORED
from pipeline.units import Unit, plan_input, plan_units, read_manifest, write_manifest
from tests.object_store import Server
from tools.base import InputError
from tools.places import put_bytes, remove

ROWS, GROUP_ROWS = 40, 10


def corpus(bucket: UPath, name: str, files: int) -> UPath:
    """Files of 40 documents, in row groups of ten with 64 KiB of text each."""
    for number in range(files):
        ids = [f"{name}-{number}-{row}" for row in range(ROWS)]
        texts = [f"{row:06d}" * 1_100 for row in range(ROWS)]
        sink = io.BytesIO()
        table = pa.table({"doc_id": ids, "text": pa.array(texts, pa.large_string())})
        pq.write_table(
            table, sink, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False
        )
        put_bytes(bucket / name / f"{number}.parquet", sink.getvalue())
    return bucket / name


def by_kind(requests: list[str]) -> Counter[str]:
    """Requests counted by method, listings by themselves."""
    kinds = (re.sub(r" .*list-type.*", " list", request).split(" ") for request in requests)
    return Counter("list" if kind[-1] == "list" else kind[0] for kind in kinds)


def scored(doc_id: str) -> pa.Table:
    row: dict[str, Any] = {
        "doc_id": doc_id, "part": 0, "text": "t", "input_ids": [1], "offers": [], "positions": [],
        "calls": [],
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=SCORED)


def test_a_plan_opens_each_file_once_for_its_footer(bucket: UPath, s3_server: Server) -> None:
    place = corpus(bucket, "planned", files=5)
    with s3_server.asked() as requests:
        plan = plan_input([place], unit_documents=10)
    assert [(Path(unit.file).name, unit.row_start) for unit in plan.units] == [
        (f"{number}.parquet", row) for number in range(5) for row in (0, 10, 20, 30)
    ]
    of_each = Counter(request.split("?")[0] for request in requests if request.startswith("GET"))
    # The footer, and the doc_ids of four row groups.
    assert [of_each[f"GET /{place.path}/{number}.parquet"] for number in range(5)] == [5] * 5


def test_a_unit_is_read_by_its_row_groups(bucket: UPath, s3_server: Server) -> None:
    [path] = list_document_files([corpus(bucket, "read", files=1)])
    with s3_server.asked() as requests:
        documents = read_rows(path, 15, 10)
    assert [document.doc_id for document in documents] == [f"read-0-{n}" for n in range(15, 25)]
    # The footer, then two row groups side by side, and not the other two.
    assert by_kind(requests) == {"HEAD": 1, "GET": 2}


def test_what_is_finished_costs_two_listings_and_a_read_of_each_mark(
    bucket: UPath, s3_server: Server
) -> None:
    run = RunDir(bucket / "run")
    units = plan_units([corpus(bucket, "run-input", files=1)], unit_documents=1)
    mark = {"seconds": {}, "tokens": {}, "finished_at": 9.0}
    with s3_server.asked() as requests:
        for unit in units[:30]:
            commit_unit(run, unit, scored(unit.unit_id), mark)
    assert by_kind(requests) == {"PUT": 60}
    put_bytes(bucket / "run" / "units" / f"{units[3].unit_id}.parquet", b"torn")
    remove(bucket / "run" / "units" / f"{units[5].unit_id}.parquet")
    with s3_server.asked() as requests:
        finished = [mark.unit_id for mark in run.finished(units)]
    assert finished == [u.unit_id for n, u in enumerate(units[:30]) if n not in (3, 5)]
    assert by_kind(requests) == {"list": 2, "GET": 30}
    assert run.done_mark(units[4].unit_id) is not None
    assert run.done_mark(units[3].unit_id) is None and run.done_mark(units[5].unit_id) is None


def test_a_manifest_in_a_store_comes_back_as_it_was_written(bucket: UPath) -> None:
    units = [Unit(unit_id="0000000", file="s3://b/a.parquet", row_start=0, num_documents=2)]
    write_manifest(bucket / "manifest.parquet", units)
    assert read_manifest(bucket / "manifest.parquet") == units
    with pytest.raises(InputError, match="no run here"):
        read_manifest(bucket / "nothing" / "manifest.parquet")


def test_documents_of_a_store_come_in_the_order_of_a_disk(bucket: UPath, tmp_path: Path) -> None:
    place = corpus(bucket, "ordered", files=1)
    names = ["b/c.parquet", "b.parquet", "a.parquet", ".hidden.parquet", "b/notes.txt"]
    for name in names:
        put_bytes(place / name, b"")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    remove(place / "0.parquet")
    here = [str(path).removeprefix(f"{tmp_path}/") for path in list_document_files([tmp_path])]
    there = [str(path).removeprefix(f"{place}/") for path in list_document_files([place])]
    assert there == here == ["a.parquet", "b/c.parquet", "b.parquet"]


def test_a_torn_file_in_a_store_is_one_clear_line(bucket: UPath) -> None:
    put_bytes(bucket / "torn.parquet", b"PAR1 and then nothing")
    with pytest.raises(InputError, match=r"torn\.parquet: not a readable Parquet file") as refused:
        plan_units([bucket / "torn.parquet"], 2)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match=r"s3://.*nothing: no such file or directory"):
        plan_units([bucket / "nothing"], 2)
