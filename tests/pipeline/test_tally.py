"""The counts in a done-mark from which `status` says what a run yields."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.rundir import DoneMark
from pipeline.schemas import SCORED
from pipeline.tally import ToolTally
from pipeline.unit_counts import count_rows
from tests.pipeline.build.scored_units import two_units


def tallies_of(unit: pa.Table) -> dict[str, ToolTally]:
    return {name: tool.tally() for name, tool in count_rows(unit).tools.items()}


def test_calls_of_a_unit_are_counted_by_tool_and_gain(tmp_path: Path) -> None:
    first, second = (pq.read_table(path, schema=SCORED) for path in two_units(tmp_path))
    tallies = tallies_of(first)
    # Calculator: gains 0.25, 1.0 and 1.5, one bound, one invalid, one unscored, one not executed.
    assert tallies["Calculator"] == ToolTally(candidates=7, executed=6, gains={1: 1, 4: 1, 6: 1})
    assert tallies["Calendar"] == ToolTally(candidates=2, executed=2, gains={5: 1, 8: 1})
    tallies["Calculator"].add(tallies_of(second)["Calculator"])
    assert tallies["Calculator"] == ToolTally(
        candidates=8, executed=7, gains={1: 1, 4: 1, 6: 1, 8: 1}
    )


@pytest.mark.parametrize(("tau_f", "kept"), [(0.0, 4), (0.25, 4), (0.5, 3), (1.0, 3), (2.0, 1)])
def test_kept_are_gains_of_at_least_tau_f(tau_f: float, kept: int) -> None:
    assert ToolTally(candidates=9, gains={1: 1, 4: 1, 6: 1, 8: 1}).kept(tau_f) == kept


def test_a_unit_without_rows_has_no_tallies() -> None:
    assert tallies_of(pa.Table.from_pylist([], schema=SCORED)) == {}


def test_a_mark_of_an_older_version_is_read() -> None:
    old: dict[str, Any] = {
        "unit_id": "0", "documents": 1, "rows": 1, "dropped": {}, "bytes": 1, "blake2b": "",
        "seconds": {}, "tokens": {}, "finished_at": 1.0,
    }  # fmt: skip
    assert DoneMark.model_validate(old).tallies == {}
