"""Inline SVG: how many documents a minute, over the time a run was at work."""

from markupsafe import Markup

from pipeline.durations import duration
from pipeline.report.svg import label, line, picture, round_up
from pipeline.report.timings import Timings

_WIDTH, _HEIGHT = 640, 210
# Room for labels that a phone's style sheet makes larger.
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 34, 46
_TICKS = 4


def rate_svg(timings: Timings, *, title: str) -> Markup:
    """An <svg> of `timings.rate` as steps, with a dashed line where the run paused."""
    top = round_up(max(timings.rate, default=0.0))
    baseline = _y(0, top)
    parts = [line("axis", _LEFT, baseline, _WIDTH - _RIGHT, baseline)]
    for count in (top // 2, top):
        parts.append(line("grid", _LEFT, _y(count, top), _WIDTH - _RIGHT, _y(count, top)))
        parts.append(label("tick end", _LEFT - 6, _y(count, top) + 4, f"{count:,}"))
    parts.append(Markup('<path class="rate" d="{}"/>').format(_steps(timings, top)))
    for after_s, pause in timings.pauses_at_s:
        x, said = _x(after_s, timings), f"paused for {duration(pause.seconds)}"
        parts.append(line("pause", x, _TOP - 4, x, baseline, said))
    for tick in range(_TICKS + 1):
        at_s = timings.working_s * tick / _TICKS
        anchor = "end" if tick == _TICKS else "middle"
        parts.append(label(f"tick {anchor}", _x(at_s, timings), baseline + 22, duration(at_s)))
    parts.append(label("tick", 2, 16, "documents a minute"))
    return picture(_WIDTH, _HEIGHT, parts, title=title)


def _steps(timings: Timings, top: int) -> str:
    """An area under steps, as the data of a path."""
    edges, rates = timings.rate_edges_s, timings.rate
    points = [f"M{_x(0.0, timings)} {_y(0, top)}"]
    for rate, end in zip(rates, edges[1:], strict=True):
        points.append(f"V{_y(rate, top)}H{_x(end, timings)}")
    return "".join([*points, f"V{_y(0, top)}Z"])


def _x(working_s: float, timings: Timings) -> float:
    share = working_s / timings.working_s if timings.working_s else 0.0
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(rate: float, top: int) -> float:
    return round(_HEIGHT - _BOTTOM - rate / top * (_HEIGHT - _TOP - _BOTTOM), 1)
