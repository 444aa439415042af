"""Everything a report shows of the units of a run, in one pass over them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.build.candidates import candidates_of, read_units
from pipeline.config import RunConfig
from pipeline.report.calls import CALL_COLUMNS, CallFilter, CallFinder, CallQuery, ShownCall
from pipeline.report.heat import HEAT_COLUMNS, HeatDocument, HeatFinder
from pipeline.report.rounds import RoundCounter
from pipeline.report.stats import STATS_COLUMNS, Stats, StatsCounter
from pipeline.rundir import DoneMark
from tools.places import Place

_MOST_CALLS = 300  # shown, of all tools
_FEWEST_CALLS, _MOST_OF_A_TOOL = 8, 80
_HEAT_DOCUMENTS = 3
REPORT_COLUMNS = tuple(dict.fromkeys([*STATS_COLUMNS, *CALL_COLUMNS, *HEAT_COLUMNS]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The counts of a run, some of its calls by gain, and the documents with the most of them."""

    stats: Stats
    calls: list[ShownCall]
    documents: list[HeatDocument]


def survey(
    unit_files: Iterable[Place],
    done_marks: Iterable[DoneMark],
    config: RunConfig,
    *,
    this_round: RoundCounter | None = None,
) -> Survey:
    """What the units in `unit_files`, with these `done_marks`, hold. One is in memory at a time.

    They are counted into `this_round` as well, where the run is compared with rounds before it.

    The marks are taken first, one at a time too: files may be named as their marks come.

    Raises:
        InputError: a unit cannot be read.
    """
    tau_f = {name: tool.tau_f for name, tool in config.tools.items()}
    counter = StatsCounter(config)
    finder = CallFinder(_queries(config), tau_f)
    heat = HeatFinder(tau_f, limit=_HEAT_DOCUMENTS)
    for mark in done_marks:
        counter.add_mark(mark)
        if this_round is not None:
            this_round.add_mark(mark)
    others = (heat,) if this_round is None else (heat, this_round)
    for _, unit in read_units(unit_files, REPORT_COLUMNS):
        candidates = candidates_of(unit)
        for each in (counter, finder, *others):
            each.add(unit, candidates)
    return Survey(stats=counter.stats(), calls=_distinct(finder.found()), documents=heat.found())


def _queries(config: RunConfig) -> list[CallQuery]:
    """Of each tool the best kept calls, and of the dropped ones the best and the worst."""
    of_a_tool = min(max(_MOST_CALLS // len(config.tools), _FEWEST_CALLS), _MOST_OF_A_TOOL)
    return [
        CallQuery(
            where=CallFilter(tool=tool, scored=True, kept=kept), limit=of_a_tool // part, lowest=low
        )
        for tool in config.tools
        for kept, low, part in ((True, False, 2), (False, False, 4), (False, True, 4))
    ]


def _distinct(answers: Iterable[Sequence[ShownCall]]) -> list[ShownCall]:
    """All calls, highest gain first, each once."""
    calls = {
        (shown.doc_id, shown.position, shown.call): shown for found in answers for shown in found
    }
    return sorted(calls.values(), key=lambda shown: -shown.worth)
