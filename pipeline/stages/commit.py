"""The end of the graph: every unit is written once, whole, and marked done."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

from pipeline.rundir import RunDir, commit_unit
from pipeline.schemas import IN_FLIGHT, conform
from pipeline.stages.failure import carried
from pipeline.trace import read_trace
from pipeline.units import Unit
from tools.base import ContractError


class UnitSink(Datasink[None]):
    """A Ray Data sink: one block is one unit is one file.

    A task that Ray repeats does no harm: a unit that is finished stays as it is. Made again it
    would have the same bytes only where its engine promises them.
    """

    def __init__(self, run_path: Path, units: Iterable[Unit]) -> None:
        self._run_path = run_path
        self._units = {unit.unit_id: unit for unit in units}

    @carried()
    def write(self, blocks: Iterable[Any], ctx: object) -> None:
        for block in blocks:
            self._commit(BlockAccessor.for_block(block).to_arrow())

    def _commit(self, rows: pa.Table) -> None:
        rows = conform(rows, IN_FLIGHT, stage="commit")
        ids = sorted(set(rows.column("unit_id").to_pylist()))
        if len(ids) != 1 or ids[0] not in self._units:
            raise ContractError(
                stage="commit", doc_id="(block)", got=f"units {ids}", expected="one planned unit"
            )
        run = RunDir(self._run_path)
        if run.done_mark(ids[0]) is None:
            mark = read_trace(rows) | {"finished_at": time.time()}
            commit_unit(run, self._units[ids[0]], rows, mark)
