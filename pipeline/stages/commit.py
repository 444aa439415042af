"""The end of the graph: every unit is written once, whole, and marked done."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pyarrow as pa

from pipeline.build.candidates import read_unit
from pipeline.metrics import begin_counts, count_unit
from pipeline.redrive import with_retried
from pipeline.rundir import DoneMark, RunDir, commit_unit
from pipeline.schemas import COMMITTED, IN_FLIGHT, SCORED, conform
from pipeline.stages.deaths import BoundedDeaths
from pipeline.stages.failure import carried
from pipeline.trace import read_trace
from pipeline.units import Unit
from tools.base import ContractError
from tools.places import Place


class CommitStage:
    """IN_FLIGHT rows in, one COMMITTED row out: one block is one unit is one file.

    A task that Ray repeats does no harm: a unit that is finished stays as it is. Made again it
    would have the same bytes only where its engine promises them.
    """

    def __init__(
        self,
        run_path: Place,
        units: Iterable[Unit],
        retried: Iterable[str],
        dispatcher: Any,
        tau_f: Mapping[str, float],
    ) -> None:
        """`retried` are finished units in which what failed is tried again.

        `dispatcher` keeps which units were begun, see BoundedDeaths; `tau_f`, in nats and by tool,
        is for the metrics alone.
        """
        self._run = RunDir(run_path)
        self._units = {unit.unit_id: unit for unit in units}
        self._retried = set(retried)
        self._deaths = BoundedDeaths("commit", dispatcher)
        self._tau_f = tau_f
        begin_counts(tau_f)

    async def __call__(self, unit: pa.Table) -> AsyncIterator[pa.Table]:
        with carried():
            rows = conform(unit, IN_FLIGHT, stage="commit")
            planned = self._planned(rows)
            async with self._deaths.at_work(planned.unit_id, _name_of(planned)):
                mark = await asyncio.to_thread(self._committed, planned, rows)
            yield pa.Table.from_pylist([{"mark": mark.model_dump_json()}], schema=COMMITTED)

    def _planned(self, rows: pa.Table) -> Unit:
        ids = sorted(set(rows.column("unit_id").to_pylist()))
        if len(ids) != 1 or ids[0] not in self._units:
            raise ContractError(
                stage="commit", doc_id="(block)", got=f"units {ids}", expected="one planned unit"
            )
        return self._units[ids[0]]

    def _committed(self, unit: Unit, rows: pa.Table) -> DoneMark:
        retried = unit.unit_id in self._retried
        before = None if retried else self._run.done_mark(unit.unit_id)
        if before is not None:
            return before
        mark = read_trace(rows) | {"finished_at": time.time()}
        if retried:
            # Done twice it changes nothing: what failed the first time is taken again.
            old = read_unit(self._run.unit_path(unit.unit_id), SCORED.names)
            rows = with_retried(
                conform(old, SCORED, stage="commit"), conform(rows, SCORED, stage="commit")
            )
        done, counts = commit_unit(self._run, unit, rows, mark)
        count_unit(counts, self._tau_f)
        return done


def _name_of(unit: Unit) -> str:
    last = unit.row_start + unit.num_documents - 1
    return f"unit {unit.unit_id} (rows {unit.row_start} to {last} of {unit.file})"
