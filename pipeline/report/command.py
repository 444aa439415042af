"""`python -m pipeline report`."""

import json
from typing import Annotated, Any

import typer
from upath import UPath

from pipeline.build.dataset import BUILD_MARK
from pipeline.commandline import stdout
from pipeline.finished_units import FinishedUnits
from pipeline.inspect_run import summary_table
from pipeline.report.html import write_report
from pipeline.report.survey import survey
from pipeline.rundir import RunDir
from tools.base import InputError
from tools.places import Place, place, read_if_there, why


def report_command(
    run: Annotated[UPath, typer.Argument(parser=place, help="A run directory.", metavar="RUN")],
) -> None:
    """Write report/index.html and report/stats.json, and show the summary."""
    directory = RunDir(run)
    config = directory.config()
    finished = FinishedUnits(directory, directory.units())
    built = _build_mark(run)
    found = survey(finished.files(), finished.marks(), config)
    finished.tell_what_is_left()
    page = write_report(directory.report_path, found, config, build=built)
    stdout.print(summary_table(found.stats))
    stdout.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _build_mark(run: Place) -> dict[str, Any] | None:
    try:
        content = read_if_there(run / BUILD_MARK)
    except OSError as error:
        raise InputError(f"{run / BUILD_MARK}: cannot be read: {why(error)}") from None
    return None if content is None else dict(json.loads(content))
