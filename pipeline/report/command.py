"""`python -m pipeline report`."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from upath import UPath

from pipeline.build.candidates import candidates_of, read_units
from pipeline.build.mark import build_mark_if_there
from pipeline.commandline import stdout
from pipeline.config import RunConfig
from pipeline.finished_units import FinishedUnits
from pipeline.inspect_run import rounds_table, summary_table
from pipeline.report.html import write_report
from pipeline.report.rounds import Found, Round, RoundCounter, Rounds
from pipeline.report.rounds_page import lines_of
from pipeline.report.survey import REPORT_COLUMNS, survey
from pipeline.rundir import RunDir
from tools.base import InputError
from tools.places import Place, absolute, place

_PREVIOUS_HELP = "The round before, to compare with; again for the one before that."


def report_command(
    run: Annotated[UPath, typer.Argument(parser=place, help="A run directory.", metavar="RUN")],
    previous: Annotated[
        list[UPath] | None, typer.Option(parser=place, help=_PREVIOUS_HELP, metavar="RUN")
    ] = None,
) -> None:
    """Write report/index.html and report/stats.json, and show the summary."""
    directory = RunDir(run)
    record, units = directory.record(), directory.units()
    config, finished = record.config, FinishedUnits(directory, units)
    mark = build_mark_if_there(directory)
    built = None if mark is None else json.loads(mark)
    earlier: list[Round] = []
    this_round = None
    if previous:
        earlier, before = _earlier_rounds([*reversed(previous)], run, config)
        this_round = RoundCounter(str(run), record, config, planned=len(units), before=before)
    found = survey(finished.files(), finished.marks(), config, this_round=this_round)
    finished.tell_what_is_left()
    rounds = None
    if this_round is not None:
        this, _ = this_round.result()
        rounds = Rounds(rounds=[*earlier, this], new_calls=this_round.new_calls())
    page = write_report(directory.report_path, found, config, build=built, rounds=rounds)
    stdout.print(summary_table(found.stats))
    if rounds is not None:
        stdout.print(rounds_table(rounds))
        for line in lines_of(rounds):
            _tell(line)
    _tell(f"report: {page}")


def _earlier_rounds(
    runs: Sequence[Place], reported: Place, config: RunConfig
) -> tuple[list[Round], Found | None]:
    """Each of `runs`, the first round first, and what the last of them found.

    Raises:
        InputError: one of them is no run, has no finished unit, or is named twice.
    """
    places = [absolute(path) for path in (*runs, reported)]
    for path in places:
        if places.count(path) > 1:
            raise InputError(f"{path}: is named twice; a round is compared with others")
    rounds, before = [], None
    for path in runs:
        directory = RunDir(path)
        record, units = directory.record(), directory.units()
        finished = FinishedUnits(directory, units)
        counter = RoundCounter(str(path), record, config, planned=len(units), before=before)
        for mark in finished.marks():
            counter.add_mark(mark)
        if not len(finished):
            raise InputError(
                f"{path}: no unit of it is finished: there is no round to compare with"
            )
        for _, unit in read_units(finished.files(), REPORT_COLUMNS):
            counter.add(unit, candidates_of(unit))
        counted, before = counter.result()
        rounds.append(counted)
    return rounds, before


def _tell(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
