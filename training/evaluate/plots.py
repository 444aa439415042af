"""plots/*.svg: bars of a table, performance by k, and over numbers of parameters (Figure 4)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.report.svg import label, line
from training.evaluate.curves import Curve, Panel, Point, Tick, curves_svg
from training.evaluate.drawing import CHARACTER, svg_file, ticks_to
from training.evaluate.result_table import Cell, ResultTable, percent_cell
from training.evaluate.scores import Score
from training.evaluate.topics import Topic, largest_k

_WIDTH, _TOP = 720, 10
_HEADING, _ROW, _BAR, _BELOW = 30, 21, 13, 34  # heights
_GAP, _LAST = 14, 16  # before and after the numbers
_LONGEST_NAME = 34  # characters
_CAP = 3.5  # half the height of an interval's ends
_IN_FULL = {
    "All": "All: every example",
    "AC": "AC: examples with a call",
    "NC": "NC: examples without a call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture: `name` is that of its file, without ".svg"."""

    name: str
    title: str
    svg: str


def bars_plot(table: ResultTable) -> Plot:
    """For each column of `table` a bar for each row, with the interval and the numbers."""
    frame = _frame(table)
    parts: list[Markup] = []
    y: float = _TOP
    for at, column in enumerate(table.columns):
        count = f" ({table.counts[at]})" if table.counts else ""
        parts.append(label("name", frame.left, y + _HEADING - 10, f"{column}{count}"))
        y += _HEADING
        shown = [(row.name, cell) for row in table.rows if (cell := row.cells[at])]
        for tick in frame.ticks:
            x = frame.x(tick)
            parts.append(line("grid" if tick else "axis", x, y, x, y + _ROW * len(shown)))
        for name, cell in shown:
            parts.extend(_bar(frame, y, name, cell, f"{name}, {column}: {cell.text}"))
            y += _ROW
    for tick in frame.ticks:
        parts.append(label("middle", frame.x(tick), y + 18, f"{tick:g}"))
    return Plot(
        name=table.slug,
        title=table.title,
        svg=svg_file(_WIDTH, y + _BELOW, parts, title=f"{table.title}, with 95% intervals"),
    )


def calibration_plot(table: ResultTable) -> Plot:
    """The columns All, AC and NC of a table like Table 9, over its k."""
    positions = _spread(list(range(len(table.rows))))
    ticks = [
        Tick(at=at, lines=(row.name, f"{row.cells[-1].text}%"))
        for at, row in zip(positions, table.rows, strict=True)
        if row.cells[-1]
    ]
    curves = [
        Curve(
            name=_IN_FULL[column],
            kind=number,
            points=tuple(
                Point(at=at, cell=cell, about=f"k = {row.name}")
                for at, row in zip(positions, table.rows, strict=True)
                if (cell := row.cells[number])
            ),
        )
        for number, column in enumerate(table.columns[:-1])
    ]
    panel = Panel(title="% right", ticks=tuple(ticks), curves=tuple(curves))
    svg = curves_svg([panel], title=table.title, below="k, and % of inputs with a call")
    return Plot(name=table.slug, title=table.title, svg=svg)


def scaling_plot(
    topic: Topic,
    scores: Sequence[Score],
    parameters: Mapping[str, int],
    scaling: Mapping[str, Sequence[str]],
) -> Plot | None:
    """A panel for each benchmark: what the models of each curve have right, by their size.

    `parameters` are those of each model. Models that were decoded both with calls and with k = 0
    have a curve for either. None where no curve has a point.
    """
    curves_of = _curves([score for score in scores if score.model in parameters], scaling)
    sizes = sorted({parameters[score.model] for found in curves_of.values() for score in found})
    at = dict(zip(sizes, _spread([math.log(size) for size in sizes]), strict=True))
    ticks = tuple(Tick(at=at[size], lines=(_short(size),)) for size in sizes)
    panels = []
    for benchmark, heading in topic.benchmarks.items():
        curves = tuple(
            Curve(
                name=name,
                kind=kind,
                points=tuple(
                    Point(
                        at=at[parameters[score.model]],
                        cell=percent_cell(score.all),
                        about=f"{score.model}, {parameters[score.model]:,} parameters",
                    )
                    for score in sorted(found, key=lambda score: parameters[score.model])
                    if score.benchmark == benchmark
                ),
            )
            for kind, (name, found) in enumerate(curves_of.items())
        )
        drawn = tuple(curve for curve in curves if curve.points)
        if drawn:
            panels.append(Panel(title=f"{heading}: % right", ticks=ticks, curves=drawn))
    if not panels:
        return None
    title = f"{topic.name}: % right over parameters, as Figure 4"
    svg = curves_svg(panels, title=title, below="parameters, on a logarithmic axis")
    return Plot(name=f"scaling-{topic.slug}", title=title, svg=svg)


def _curves(
    scores: Sequence[Score], scaling: Mapping[str, Sequence[str]]
) -> dict[str, list[Score]]:
    """The scores on each curve: with the largest k of its models and, if that is another, k = 0."""
    shown = largest_k(scores)
    curves: dict[str, list[Score]] = {}
    for name, models in scaling.items():
        curves[name] = [score for score in shown.values() if score.model in models]
        curves[f"{name}, k = 0"] = [
            score
            for score in scores
            if score.model in models
            and score.api_top_k == 0
            and shown[score.model, score.benchmark].api_top_k
        ]
    return {name: found for name, found in curves.items() if found}


def _spread(values: Sequence[float]) -> list[float]:
    """`values`, in order, as shares of the way from the first to the last; 0.5 of a single one."""
    if len(values) < 2:
        return [0.5 for _ in values]
    first, last = values[0], values[-1]
    return [(value - first) / (last - first) for value in values]


def _short(size: int) -> str:
    """A number of parameters as one says it: 124M, 6.1B."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if size >= unit:
            return f"{size / unit:.1f}{name}" if size < 10 * unit else f"{size / unit:.0f}{name}"
    return str(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """Names end at `left`, where bars begin; what they come to is written from `right` on."""

    left: float
    right: float
    ticks: Sequence[float]

    def x(self, value: float) -> float:
        """Where a value stands; an infinite one at the end."""
        width = self.right - _GAP - self.left
        return round(self.left + min(value / self.ticks[-1], 1.0) * width, 1)


def _frame(table: ResultTable) -> _Frame:
    longest = min(_LONGEST_NAME, max(len(row.name) for row in table.rows))
    cells = [cell for row in table.rows for cell in row.cells if cell]
    return _Frame(
        left=20 + CHARACTER * longest,
        right=_WIDTH - _LAST - CHARACTER * max(len(cell.text) for cell in cells),
        ticks=ticks_to(max((c.high for c in cells if math.isfinite(c.high)), default=0.0)),
    )


def _bar(frame: _Frame, top: float, name: str, cell: Cell, title: str) -> Iterator[Markup]:
    """One row: a name, a bar with its interval, and numbers."""
    middle = top + _ROW / 2
    kind = "best" if cell.is_best else ""
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
    yield label(f"end {kind}", frame.left - 8, middle + 4, short)
    yield Markup(
        '<rect class="bar {}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    ).format(
        kind,
        frame.left,
        middle - _BAR / 2,
        round(frame.x(cell.value) - frame.left, 1),
        _BAR,
        title,
    )
    low, high = frame.x(cell.low), frame.x(cell.high)
    yield line("interval", low, middle, high, middle)
    for x in (low, high):
        yield line("interval", x, middle - _CAP, x, middle + _CAP)
    yield label(kind, frame.right, middle + 4, cell.text)
