"""The experiments of a soak, and how large each is."""

import importlib.metadata
import os
import platform
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pipeline.soak.endurance import endure
from pipeline.soak.overhead import measure_overhead
from pipeline.soak.planning import measure_planning
from pipeline.soak.results import Part
from pipeline.soak.scaling import NODES, measure_scaling
from pipeline.soak.stragglers import measure_stragglers
from tools.base import OutputError

Tell = Callable[[str], None]
_PACKAGES = ("ray", "pyarrow", "numpy", "tokenizers")


def experiments(
    directory: Path, num_documents: int, *, quick: bool
) -> Mapping[str, Callable[[Tell], Part]]:
    """What makes each experiment below `directory`, by its name; told what to say as it goes.

    Raises:
        OutputError: there can be no such directory.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{directory}: cannot be written: {error.strerror or error}") from None
    place = directory.resolve()
    nodes, units_per_node, unit_s = ((1, 2), 12, 1.0) if quick else (NODES, 16, 10.0)
    # A short run, too, has more units than may be under way, and is read again and again.
    unit_documents, every_s = (64, 0.25) if quick else (256, 2.0)
    endurance = partial(endure, unit_documents=unit_documents, every_s=every_s)
    return {
        "endurance": partial(endurance, place / "endurance", num_documents),
        "overhead": partial(measure_overhead, place / "overhead", 40 if quick else 300),
        "planning": partial(measure_planning, place / "planning", 2_000 if quick else 100_000),
        "scaling": partial(measure_scaling, place / "scaling", nodes, units_per_node, unit_s),
        "stragglers": partial(measure_stragglers, place / "stragglers", 24 if quick else 64),
    }


def machine() -> dict[str, object]:
    """What it was measured on, and with."""
    return {
        "cpus": os.cpu_count(),
        "cpu": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
