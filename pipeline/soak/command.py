"""`python -m pipeline soak`."""

import time
from collections.abc import Callable, Mapping
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
    from pipeline.soak.results import failed_checks, write_results
    from pipeline.soak.run import experiments, machine
    from pipeline.soak.tables import tables

    number = documents or (_QUICK_DOCUMENTS if quick else _DOCUMENTS)
    made = experiments(out, number, quick=quick)
    # In a quick soak one run shows that the command works.
    chosen = only or ([Experiment.ENDURANCE] if quick else list(Experiment))
    started = time.perf_counter()
    parts = _made(made, chosen)
    write_results(out / "soak.json", parts, machine())
    for table in tables(parts):
        stdout.print(table)
    _tell(f"{time.perf_counter() - started:.0f} s in all; written: {out / 'soak.json'}")
    failed = list(failed_checks(parts))
    if failed:
        raise ToolformerError(f"soak: {'; '.join(failed)}")


def _made(
    made: Mapping[str, Callable[[Callable[[str], None]], "Part"]], chosen: list[Experiment]
) -> list["Part"]:
    parts = []
    for experiment in chosen:
        with stdout.status(experiment) as status:
            parts.append(made[experiment](status.update))
    return parts


def _tell(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
