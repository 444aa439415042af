"""Run directories made by hand, unit by unit: no model, no Ray."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.build import build
from pipeline.config import RunConfig
from pipeline.rundir import DoneMark, RunDir, RunRecord, commit_unit
from pipeline.schemas import SCORED
from pipeline.units import Unit, write_manifest
from tests.pipeline.build.scored_units import byte_codec, run_config, two_units
from tools.atomic import write_text_atomically
from tools.places import Place


def planned_run(
    path: Place, num_units: int, *, unit_documents: int = 2, config: RunConfig | None = None
) -> RunDir:
    """A run that has begun: its record and its units, none of which is finished."""
    run = RunDir(path)
    units = [
        Unit(
            unit_id=f"{number:07}", file="documents.parquet",
            row_start=number * unit_documents, num_documents=unit_documents,
        )
        for number in range(num_units)
    ]  # fmt: skip
    write_manifest(run.manifest_path, units)
    record = RunRecord(
        config=config or run_config(run=str(path)), fingerprint="f" * 32, fingerprint_of={},
        versions={"python": "3.11", "torch": "2.13.0"},
    )  # fmt: skip
    write_text_atomically(run.record_path, record.model_dump_json())
    return run


def commit(run: RunDir, number: int, rows: Sequence[Mapping[str, Any]], **mark: Any) -> DoneMark:
    """Finish a unit with these rows (see scored_units.row)."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCORED)
    defaults: dict[str, Any] = {"seconds": {}, "tokens": {}, "finished_at": 0.0}
    done, _ = commit_unit(run, run.units()[number], table, defaults | mark)
    return done


def built_run(path: Place) -> RunDir:
    """A finished and built run of the four documents of scored_units.two_units.

    C* has two of them with four calls.
    """
    run = planned_run(path, 2)
    with tempfile.TemporaryDirectory() as directory:
        for number, file in enumerate(two_units(Path(directory))):
            commit(run, number, pq.read_table(file, schema=SCORED).to_pylist())
    build(run.finished_unit_files(), run.config(), byte_codec(), path)
    return run
