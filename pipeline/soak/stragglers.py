"""Units that take twenty times as long as others: nothing waits for them but the end of the run."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from pipeline.rundir import DoneMark
from pipeline.soak.configuration import write_configuration
from pipeline.soak.curves import working_time
from pipeline.soak.documents import write_texts
from pipeline.soak.emptied import emptied
from pipeline.soak.results import Check, Part
from pipeline.soak.watching import watched_annotate

REPLICAS = 4
_UNIT_DOCUMENTS = 4
_WORDS, _SLOWER = 16, 20
_SECONDS_PER_TOKEN = 0.0125
# Reading, tools and commits of the last unit; processes of one machine share its cores.
_SLACK_S = 3.0


def measure_stragglers(directory: Path, num_units: int, tell: Callable[[str], None]) -> Part:
    """Annotate `num_units` units of which every sixteenth and the last two are slow.

    Raises:
        ToolformerError: the run ends with an error.
        OutputError: `directory` holds what no soak wrote, or the disk is full.
    """
    documents = emptied(directory) / "documents.parquet"
    slow = {n for n in range(num_units) if n % 16 == 8 or n >= num_units - 2}
    write_texts(
        documents,
        [
            " mill" * (_WORDS * (_SLOWER if unit in slow else 1))
            for unit in range(num_units)
            for _ in range(_UNIT_DOCUMENTS)
        ],
    )
    configuration = write_configuration(
        directory,
        documents=documents,
        unit_documents=_UNIT_DOCUMENTS,
        replicas=REPLICAS,
        seconds={"seconds_per_token": _SECONDS_PER_TOKEN},
    )
    tell(f"stragglers: {len(slow)} of {num_units} units take {_SLOWER} times as long")
    watched = watched_annotate(configuration)
    return judged(watched.marks, {f"{n:07d}" for n in slow})


def judged(marks: Sequence[DoneMark], slow: Collection[str]) -> Part:
    """The run of these marks against a dispatcher that lets no replica idle while a unit waits.

    Such a one ends before all work, shared evenly, would have ended plus the slowest unit's own
    time: when the last unit begins, no replica has been idle.
    """
    begin, end = working_time(marks)
    own = {mark.unit_id: mark.seconds["sample"] + mark.seconds["score"] for mark in marks}
    even = sum(own.values()) / REPLICAS
    slowest = max(own.values())
    under_way = {mark.unit_id: mark.finished_at - mark.begun_at for mark in marks}
    fast_longest = max(under_way[unit] for unit in own if unit not in slow)
    figures = {
        "replicas": REPLICAS,
        "units": len(marks),
        "slow_units": len(slow),
        "slowest_unit_s": slowest,
        "fast_unit_s": sum(s for unit, s in own.items() if unit not in slow)
        / (len(own) - len(slow)),
        "even_share_s": even,
        "whole_s": end - begin,
        "beyond_even_share_s": end - begin - even,
        "fast_unit_longest_under_way_s": fast_longest,
    }
    checks = [
        Check(
            name="the end comes no later than the slowest unit after an even share of the work",
            got=f"{end - begin - even:.1f} s after it",
            expected=f"at most {slowest:.1f} s (and {_SLACK_S:g} s for what is not the engine)",
            holds=end - begin - even <= slowest + _SLACK_S,
        ),
    ]
    return Part(name="stragglers", figures=figures, checks=checks)
