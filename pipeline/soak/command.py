"""`python -m pipeline soak`."""

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.commandline import stdout
from tools.base import ConfigError, ToolformerError

if TYPE_CHECKING:
    from pipeline.soak.results import Part


class Experiment(StrEnum):
    """What a soak is made of."""

    ENDURANCE = "endurance"
    OVERHEAD = "overhead"
    PLANNING = "planning"
    SCALING = "scaling"
    STRAGGLERS = "stragglers"


_DOCUMENTS = 1_000_000
_QUICK_DOCUMENTS = 3_000
_OUT_HELP = "Directory for everything that is written; one that is new, or of an earlier soak."
_ONLY_HELP = "Make this experiment alone; may be given again."
_QUICK_HELP = "A few thousand documents: does it run? Too short to judge memory."


def soak_command(
    out: Annotated[Path, typer.Option(help=_OUT_HELP)],
    documents: Annotated[
        int | None, typer.Option(min=1, help="Of the endurance run (default 1,000,000).")
    ] = None,
    only: Annotated[list[Experiment] | None, typer.Option(help=_ONLY_HELP)] = None,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK_HELP)] = False,
) -> None:
    """Measure the graph alone, with an engine that has no model: memory, overhead, scaling."""
    try:
        import psutil  # noqa: F401
    except ImportError:
        raise ConfigError("soak: needs psutil: pip install '.[dev]'") from None
    from pipeline.soak.results import begin_results, failed_checks
    from pipeline.soak.run import experiments

    number = documents or (_QUICK_DOCUMENTS if quick else _DOCUMENTS)
    made = experiments(out, number, quick=quick)
    # In a quick soak one run shows that the command works.
    chosen = only or ([Experiment.ENDURANCE] if quick else list(Experiment))
    started, results = time.perf_counter(), out / "soak.json"
    begin_results(results, chosen)
    parts = [_made(experiment, made[experiment], results) for experiment in chosen]
    _tell(f"{time.perf_counter() - started:.0f} s in all; written: {results}")
    failed = list(failed_checks(parts))
    if failed:
        raise ToolformerError(f"soak: {'; '.join(failed)}")


def _made(name: str, make: Callable[[Callable[[str], None]], "Part"], results: Path) -> "Part":
    """An experiment, written and shown before the next one begins: hours lie between them."""
    from pipeline.soak.results import add_part
    from pipeline.soak.run import machine
    from pipeline.soak.tables import tables

    with stdout.status(name) as status:
        part = make(status.update)
    add_part(results, part, machine())
    for table in tables(part):
        stdout.print(table)
    return part


def _tell(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
