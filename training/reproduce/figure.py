"""Figure 4: what tools add, over numbers of parameters."""

import math
from collections.abc import Sequence

from training.evaluate.curves import Curve, Panel, Point, Tick, curves_svg
from training.evaluate.result_table import percent_cell
from training.reproduce.measured import DISABLED, SizeMeasured
from training.reproduce.plan import TOOLFORMER
from training.reproduce.tables import over_all

TITLE = "% right over parameters, as Figure 4"


def figure_4(sizes: Sequence[SizeMeasured], benchmarks: Sequence[str], *, seed: int) -> str:
    """An SVG file: all tasks together, then each; with tools and with calls disabled."""
    logs = [math.log(size.parameters) for size in sizes]
    width = max(logs) - min(logs)
    at = [(log - min(logs)) / width if width else 0.5 for log in logs]
    ticks = tuple(
        Tick(at=place, lines=(f"{size.parameters / 1e6:.1f}M",))
        for place, size in zip(at, sizes, strict=True)
    )
    shown = {"all tasks": list(benchmarks), **{each: [each] for each in benchmarks}}
    panels = [
        Panel(
            title=f"{title}: % right",
            ticks=ticks,
            curves=tuple(
                Curve(name=row, kind=kind, points=_points(sizes, at, row, of, seed))
                for kind, row in enumerate((TOOLFORMER, DISABLED))
            ),
        )
        for title, of in shown.items()
    ]
    return curves_svg(panels, title=TITLE, below="parameters, on a logarithmic axis")


def _points(
    sizes: Sequence[SizeMeasured],
    at: Sequence[float],
    row: str,
    benchmarks: Sequence[str],
    seed: int,
) -> tuple[Point, ...]:
    points = []
    for size, place in zip(sizes, at, strict=True):
        found = over_all(size, row, benchmarks, seed=seed)
        about = f"{size.name}, {size.parameters:,} parameters"
        points.append(Point(at=place, cell=percent_cell(found), about=about))
    return tuple(points)
