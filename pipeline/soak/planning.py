"""How long a very large run takes to be planned, and to be found finished."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from pipeline.annotate import resolve_run
from pipeline.config import RunConfig, load_config
from pipeline.rundir import RunDir, commit_unit
from pipeline.schemas import SCORED
from pipeline.soak.configuration import write_configuration
from pipeline.soak.documents import write_many
from pipeline.soak.emptied import emptied
from pipeline.soak.results import Check, Part
from pipeline.soak.watching import watched_annotate
from pipeline.units import Plan, Unit, plan_input, read_manifest, write_manifest
from tools.atomic import write_text_atomically

UNIT_DOCUMENTS = 64
MOST_S = 60.0  # for each: it is to be done "in seconds"


def measure_planning(directory: Path, num_units: int, tell: Callable[[str], None]) -> Part:
    """Plan `num_units` units of 64 documents, then resume a run in which all are finished.

    The unit files and done-marks of that run are copies of one, written without a graph.

    Raises:
        ToolformerError: the command that resumes ends with an error.
        OutputError: `directory` holds what no soak wrote, or the disk is full.
    """
    documents = emptied(directory) / "documents"
    tell(f"planning: writing {num_units * UNIT_DOCUMENTS:,} documents")
    write_many(documents, num_units * UNIT_DOCUMENTS)
    configuration = write_configuration(
        directory, documents=documents, unit_documents=UNIT_DOCUMENTS
    )
    config = load_config(configuration)
    run = RunDir(config.run)
    seconds: dict[str, float] = {}
    tell(f"planning: {num_units:,} units")
    with _timed(seconds, "plan_s"):
        plan = plan_input(config.input, config.unit_documents)
    with _timed(seconds, "write_manifest_s"):
        write_manifest(run.manifest_path, plan.units)
    with _timed(seconds, "read_manifest_s"):
        read_manifest(run.manifest_path)
    tell(f"planning: writing {num_units:,} finished units")
    _finish(run, plan, config)
    tell("planning: resuming")
    with _timed(seconds, "resume_command_s"):
        watched_annotate(configuration)
    with _timed(seconds, "read_marks_s"):
        finished = sum(1 for _ in run.finished(run.units()))
    figures = {"units": len(plan.units), "documents": num_units * UNIT_DOCUMENTS, **seconds}
    checks = _checks(len(plan.units), finished, seconds)
    return Part(name="planning", figures=figures, checks=checks)


def _checks(planned: int, finished: int, seconds: Mapping[str, float]) -> list[Check]:
    return [
        Check(
            name="every unit is found finished",
            got=f"{finished:,} units",
            expected=f"{planned:,} units",
            holds=finished == planned,
        ),
        _in_seconds(f"plan of {planned:,} units", seconds["plan_s"]),
        _in_seconds(f"`annotate` of {planned:,} finished units", seconds["resume_command_s"]),
    ]


def _in_seconds(what: str, got_s: float) -> Check:
    return Check(
        name=what, got=f"{got_s:.1f} s", expected=f"at most {MOST_S:g} s", holds=got_s <= MOST_S
    )


def _finish(run: RunDir, plan: Plan, config: RunConfig) -> None:
    units, record = plan.units, resolve_run(config, plan).record
    write_text_atomically(run.record_path, record.model_dump_json(indent=1))
    commit_unit(run, units[0], _nothing_offered(units[0]), _mark())
    unit_file = run.unit_path(units[0].unit_id).read_bytes()
    mark = json.loads(run.done_path(units[0].unit_id).read_text())
    for unit in units[1:]:
        run.unit_path(unit.unit_id).write_bytes(unit_file)
        run.done_path(unit.unit_id).write_text(json.dumps(mark | {"unit_id": unit.unit_id}))


def _nothing_offered(unit: Unit) -> pa.Table:
    """The rows of a unit whose documents no tool is offered."""
    nothing: dict[str, object] = {
        "url": None, "date": None, "language": None, "dropped": "not_offered", "input_ids": [],
        "offers": [], "paragraphs": None, "positions": [], "calls": [], "part": 0, "text": "",
    }  # fmt: skip
    rows = [{"doc_id": f"{number}", **nothing} for number in range(unit.num_documents)]
    return pa.Table.from_pylist(rows, schema=SCORED)


def _mark() -> dict[str, object]:
    return {"seconds": {}, "tokens": {}, "finished_at": time.time()}


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - started
