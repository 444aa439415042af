"""A picture of a run over its time: documents a second above, memory of the processes below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.report.svg import label, line
from pipeline.rundir import DoneMark
from pipeline.soak.curves import documents_per_second, working_time
from pipeline.soak.processes import Reading

_WIDTH, _LEFT, _RIGHT = 860, 70, 150
_RATE_TOP, _RATE_HEIGHT = 40, 120
_MEMORY_TOP, _MEMORY_HEIGHT = 210, 300
_HEIGHT = _MEMORY_TOP + _MEMORY_HEIGHT + 50
# Distinguishable without red beside green (Okabe and Ito).
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#888888",
    "#7a5195", "#8c564b",
)  # fmt: skip
_STYLE = Markup(
    "<style>text{font:12px sans-serif;fill:#222}.title{font-weight:bold}.end{text-anchor:end}"
    ".middle{text-anchor:middle}.axis{stroke:#222}.grid{stroke:#ddd}"
    "polyline{fill:none;stroke-width:1.6}</style>"
)
_LABEL_HEIGHT = 14
_MIB = 2**20

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """A part of the picture: seconds to the right, values upwards from 0."""

    top: float
    height: float
    seconds: float
    largest: float

    def x(self, at_s: float) -> float:
        return round(_LEFT + at_s / self.seconds * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        return round(self.top + self.height * (1 - value / self.largest), 1)


def curves_svg(readings: Sequence[Reading], marks: Sequence[DoneMark], *, points: int) -> str:
    """An SVG file: from the first unit that was read to the last that was committed."""
    begin, end = working_time(marks)
    rate = documents_per_second(marks, points=points)
    shown = [reading for reading in readings if begin <= reading.at <= end]
    groups = sorted(
        {group for reading in shown for group in reading.memory_bytes},
        key=lambda group: -sum(reading.memory_bytes.get(group, 0) for reading in shown),
    )
    memory = {
        group: [(r.at - begin, r.memory_bytes.get(group, 0) / _MIB) for r in shown]
        for group in groups
    }
    parts = [_STYLE, *_panel_of_rate(rate, end - begin), *_panel_of_memory(memory, end - begin)]
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            'height="{h}" role="img" aria-label="documents a second and memory over the run">'
            '<rect width="{w}" height="{h}" fill="#fff"/>{body}</svg>\n'
        ).format(w=_WIDTH, h=_HEIGHT, body=Markup("\n").join(parts))
    )


def _panel_of_rate(rate: Points, seconds: float) -> list[Markup]:
    panel = _Panel(
        top=_RATE_TOP, height=_RATE_HEIGHT, seconds=seconds, largest=_above(rate, default=1.0)
    )
    return [
        *_frame(panel, "documents a second"),
        _curve(panel, rate, _COLOURS[0]),
    ]


def _panel_of_memory(memory: Mapping[str, Points], seconds: float) -> list[Markup]:
    every = [point for points in memory.values() for point in points]
    panel = _Panel(
        top=_MEMORY_TOP, height=_MEMORY_HEIGHT, seconds=seconds, largest=_above(every, default=1.0)
    )
    parts = _frame(panel, "memory that each holds for itself, MiB; the object store beside")
    lowest = float(_HEIGHT)  # of the labels so far: they stand beside the ends of their curves
    for index, (group, points) in enumerate(reversed(list(memory.items()))):
        colour = _COLOURS[index % len(_COLOURS)]
        parts.append(_curve(panel, points, colour))
        last = points[-1][1] if points else 0.0
        lowest = min(panel.y(last) + 4, lowest - _LABEL_HEIGHT)
        parts.append(
            Markup('<text x="{}" y="{}" style="fill:{}">{} {}</text>').format(
                _WIDTH - _RIGHT + 6, lowest, colour, group, f"{last:,.0f}"
            )
        )
    parts.append(label("middle", _WIDTH / 2 - 40, _HEIGHT - 10, "minutes"))
    return parts


def _frame(panel: _Panel, title: str) -> list[Markup]:
    parts = [label("title", _LEFT, panel.top - 12, title)]
    for share in (0.0, 0.5, 1.0):
        value = share * panel.largest
        y = panel.y(value)
        kind = "axis" if share == 0 else "grid"
        parts.append(line(kind, _LEFT, y, _WIDTH - _RIGHT, y))
        parts.append(label("end", _LEFT - 6, y + 4, f"{value:,.0f}"))
    for fifth in range(6):
        at_s = panel.seconds * fifth / 5
        below = panel.top + panel.height + 16
        parts.append(label("middle", panel.x(at_s), below, f"{at_s / 60:.3g}"))
    return parts


def _curve(panel: _Panel, points: Points, colour: str) -> Markup:
    places = " ".join(f"{panel.x(at_s)},{panel.y(value)}" for at_s, value in points)
    return Markup('<polyline points="{}" style="stroke:{}"/>').format(places, colour)


def _above(points: Points, *, default: float) -> float:
    """A round number that no value is above: 1, 2 or 5 times a power of ten."""
    largest = max((value for _, value in points), default=0.0)
    if largest <= 0:
        return default
    magnitude = 1.0
    while magnitude < largest:
        magnitude *= 10
    return next(magnitude * f for f in (0.1, 0.2, 0.5, 1.0) if magnitude * f >= largest)
