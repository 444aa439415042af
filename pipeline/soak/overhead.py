"""What the graph costs a unit, in CPU seconds and in time, where the model costs nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.soak.configuration import write_configuration
from pipeline.soak.documents import write_documents
from pipeline.soak.emptied import emptied
from pipeline.soak.results import Check, Part
from pipeline.soak.watching import Watched, watched_annotate
from tools.base import ToolformerError

UNIT_DOCUMENTS = 64
UNIT_S = 30.0  # of a GPU, that a unit is planned to take
MOST_SHARE = 0.03
_SENTENCES = 40  # at most: 330 tokens a document in the mean
_WARM_UNITS = 1 / 4  # of all: imports and first connections are no cost of a unit


def measure_overhead(directory: Path, num_units: int, tell: Callable[[str], None]) -> Part:
    """Annotate `num_units` units of documents of ordinary length with one replica and no sleep.

    Raises:
        ToolformerError: the run ends with an error, or is over too soon to be measured.
        OutputError: `directory` holds what no soak wrote, or the disk is full.
    """
    documents = emptied(directory) / "documents"
    tell(f"overhead: annotating {num_units} units of {UNIT_DOCUMENTS} documents")
    write_documents(documents, num_units * UNIT_DOCUMENTS, most_sentences=_SENTENCES)
    configuration = write_configuration(
        directory, documents=documents, unit_documents=UNIT_DOCUMENTS
    )
    figures = overhead(watched_annotate(configuration, every_s=1.0))
    checks = [
        Check(
            name=f"{what} of the graph for a unit",
            got=f"{figures[key]:.3f} s, {figures[key] / UNIT_S:.2%} of {UNIT_S:g} s",
            expected=f"at most {MOST_SHARE:.0%}",
            holds=figures[key] / UNIT_S <= MOST_SHARE,
        )
        for what, key in (("CPU time", "cpu_s_per_unit"), ("time", "wall_s_per_unit"))
    ]
    return Part(name="overhead", figures=figures, checks=checks)


def overhead(watched: Watched) -> dict[str, Any]:
    """Seconds for each unit, between two readings with units committed before and after both.

    Raises:
        ToolformerError: there are no two such readings.
    """
    commits = [mark.finished_at for mark in watched.marks]
    begin = commits[int(len(commits) * _WARM_UNITS)]
    readings = [r for r in watched.readings if begin <= r.at <= commits[-1]]
    units = sum(readings[0].at < at <= readings[-1].at for at in commits) if readings else 0
    if not units:
        raise ToolformerError("overhead: the run was over before it could be measured")
    first, last = readings[0], readings[-1]
    by_group = {
        group: (seconds - first.cpu_s.get(group, 0.0)) / units
        for group, seconds in sorted(last.cpu_s.items())
    }
    tokens = sum(mark.tokens.get("position_tokens", 0) for mark in watched.marks)
    return {
        "units_measured": units,
        "unit_documents": UNIT_DOCUMENTS,
        "position_tokens_per_unit": tokens / len(watched.marks),
        "cpu_s_per_unit": sum(by_group.values()),
        "cpu_s_per_unit_by_group": by_group,
        "wall_s_per_unit": (last.at - first.at) / units,
        "share_of_a_unit": sum(by_group.values()) / UNIT_S,
    }
