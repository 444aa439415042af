"""Curves with intervals in panels side by side, all with the same horizontal axis."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.report.svg import label, line
from training.evaluate.drawing import CHARACTER, NUM_KINDS, svg_file, ticks_to
from training.evaluate.result_table import Cell

_WIDTH, _HEIGHT = 350, 262  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 22, 34, 58
_LINE, _LEGEND_LINE, _SAMPLE = 15, 20, 36
_CAP = 3  # half the width of an interval's ends
_APART = 5  # curves stand this far beside each other, lest one hide another's intervals
_CLOSEST_TICKS = 46
# Of kind after kind, so that curves differ without their colours.
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",  # a disc
    "M-4-4H4V4H-4Z",  # a square
    "M0-5L5 4H-5Z",  # a triangle
    "M0-5.5L5.5 0L0 5.5L-5.5 0Z",  # a diamond
    "M0 5L5-4H-5Z",  # a triangle that points down
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A place on the horizontal axis, from 0 to 1, and the lines written below it."""

    at: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A number with its interval at a place of the horizontal axis; `about` says of what."""

    at: float
    cell: Cell
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points from left to right. Curves of one `kind` look the same in every panel."""

    name: str
    kind: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves over one pair of axes, the vertical one from 0."""

    title: str
    ticks: tuple[Tick, ...]
    curves: tuple[Curve, ...]


def curves_svg(panels: Sequence[Panel], *, title: str, below: str) -> str:
    """The text of an SVG file: a legend, then the panels in two columns.

    `below` says what the horizontal axes are.
    """
    legend = {curve.kind: curve.name for panel in panels for curve in panel.curves}
    kinds = sorted(legend)
    parts: list[Markup] = []
    for number, kind in enumerate(kinds):
        y = 18 + number * _LEGEND_LINE
        places = [(_LEFT + along, y) for along in (0, _SAMPLE / 2, _SAMPLE)]
        parts.append(_curve(kind, places, [], ["", legend[kind], ""]))
        parts.append(label("", _LEFT + _SAMPLE + 10, y + 4, legend[kind]))
    top = 14 + len(kinds) * _LEGEND_LINE
    for number, panel in enumerate(panels):
        row, column = divmod(number, 2)
        parts.append(
            Markup('<g transform="translate({} {})">{}</g>').format(
                column * _WIDTH, top + row * _HEIGHT, Markup("").join(_panel(panel, kinds, below))
            )
        )
    rows = -(-len(panels) // 2)
    longest = max(map(len, legend.values())) * CHARACTER
    width = max(_WIDTH * min(2, len(panels)), _LEFT + _SAMPLE + 20 + longest)
    return svg_file(width, top + rows * _HEIGHT + 4, parts, title=f"{title}, with 95% intervals")


def _panel(panel: Panel, kinds: Sequence[int], below: str) -> Iterator[Markup]:
    """Parts with (0, 0) at the upper left of the panel."""
    values = ticks_to(max(point.cell.high for curve in panel.curves for point in curve.points))
    base = _HEIGHT - _BOTTOM

    def y(value: float) -> float:
        return round(base - value / values[-1] * (base - _TOP), 1)

    yield label("name", _LEFT, 20, panel.title)
    for value in values:
        yield line("grid" if value else "axis", _LEFT, y(value), _WIDTH - _RIGHT, y(value))
        yield label("end", _LEFT - 6, y(value) + 4, f"{value:g}")
    last = -math.inf
    for tick in panel.ticks:
        x = _x(tick.at)
        yield line("axis", x, base, x, base + 4)
        if x - last >= _CLOSEST_TICKS:
            last = x
            for number, text in enumerate(tick.lines):
                yield label("middle", x, base + 18 + number * _LINE, text)
    under = base + 21 + _LINE * max(len(tick.lines) for tick in panel.ticks)
    yield label("middle", (_LEFT + _WIDTH - _RIGHT) / 2, under, below)
    for curve in panel.curves:
        aside = (kinds.index(curve.kind) - (len(kinds) - 1) / 2) * _APART
        places = [(_x(point.at) + aside, y(point.cell.value)) for point in curve.points]
        intervals = [
            _interval(x, y(point.cell.low), y(point.cell.high))
            for (x, _), point in zip(places, curve.points, strict=True)
        ]
        titles = [f"{curve.name}, {point.about}: {point.cell.text}" for point in curve.points]
        yield _curve(curve.kind, places, intervals, titles)


def _x(at: float) -> float:
    room = 24  # for what stands beside the first and the last tick
    return round(_LEFT + room + at * (_WIDTH - _LEFT - _RIGHT - 2 * room), 1)


def _curve(
    kind: int,
    places: Sequence[tuple[float, float]],
    intervals: Iterable[Markup],
    titles: Sequence[str],
) -> Markup:
    """The line through `places`, and above it a mark at each that has a title."""
    marks = [
        Markup('<path d="{}" transform="translate({} {})"><title>{}</title></path>').format(
            _MARKS[kind % len(_MARKS)], x, y, title
        )
        for (x, y), title in zip(places, titles, strict=True)
        if title
    ]
    return Markup(
        '<g class="curve k{}"><polyline points="{}" stroke-dasharray="{}"/>{}{}</g>'
    ).format(
        kind % NUM_KINDS,
        " ".join(f"{x},{y}" for x, y in places),
        _DASHES[kind % len(_DASHES)] or "none",
        Markup("").join(intervals),
        Markup("").join(marks),
    )


def _interval(x: float, low: float, high: float) -> Markup:
    return Markup("").join(
        [
            line("", x, low, x, high),
            line("", x - _CAP, low, x + _CAP, low),
            line("", x - _CAP, high, x + _CAP, high),
        ]
    )
