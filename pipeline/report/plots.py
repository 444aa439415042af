"""Inline SVG: the gains of a tool's calls, with tau_f."""

from dataclasses import dataclass

from markupsafe import Markup

from pipeline.report.svg import label, line, picture, round_up
from pipeline.report.tool_stats import GainHistogram

_WIDTH, _HEIGHT = 640, 230
# Room for labels that a phone's style sheet makes larger.
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 38, 56
_TAU_F = Markup('&tau;<tspan dy="4" font-size="75%">f</tspan><tspan dy="-4"> = {}</tspan>')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """The part of the plane that is shown, and where it lies in the picture."""

    gain_min: float
    gain_max: float
    count_max: int

    def x(self, gain: float) -> float:
        share = (gain - self.gain_min) / (self.gain_max - self.gain_min)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, count: float) -> float:
        return round(_HEIGHT - _BOTTOM - count / self.count_max * (_HEIGHT - _TOP - _BOTTOM), 1)


def gain_histogram_svg(histogram: GainHistogram, tau_f: float, *, kept: int, title: str) -> Markup:
    """An <svg> of the histogram: gains at least tau_f (`kept` in all), gains below, mere bounds.

    Colours come from the page's style sheet (classes kept, below, bound, axis, tick, tau).
    """
    frame = _frame(histogram, tau_f)
    parts = [*_axes(frame), *_bars(histogram, frame, tau_f, kept), *_threshold(frame, tau_f)]
    return picture(_WIDTH, _HEIGHT, parts, title=title)


def _frame(histogram: GainHistogram, tau_f: float) -> _Frame:
    """The bins that are not empty and at least [-0.5, tau_f + 0.5]; counts up to a round number."""
    totals = [sum(pair) for pair in zip(histogram.counts, histogram.bound_counts, strict=True)]
    filled = [b for b, total in enumerate(totals) if total]
    first, last = (filled[0], filled[-1]) if filled else (0, 0)
    edges = histogram.edges
    return _Frame(
        gain_min=min(edges[first] if filled else 0.0, -0.5),
        gain_max=max(edges[last + 1] if filled else 0.0, tau_f + 0.5),
        count_max=round_up(max(totals)),
    )


def _bars(histogram: GainHistogram, frame: _Frame, tau_f: float, kept: int) -> list[Markup]:
    """Parts of a bin stand on one another; in that of tau_f are what other bins leave of `kept`."""
    above = [b for b, start in enumerate(histogram.edges[:-1]) if start >= tau_f]
    at_tau_f = (above[0] if above else len(histogram.counts)) - 1
    rest = kept - sum(histogram.counts[b] for b in above)
    bars = []
    for b, (count, bound) in enumerate(zip(histogram.counts, histogram.bound_counts, strict=True)):
        kept_here = count if b > at_tau_f else rest if b == at_tau_f else 0
        gains, low = _range(histogram, b), 0
        for kind, number, title in (
            ("below", count - kept_here, f"{gains}: {count - kept_here} calls"),
            ("kept", kept_here, f"{gains}: {kept_here} calls"),
            ("bound", bound, f"upper bound {gains}: {bound} calls"),
        ):
            if number:
                start, end = histogram.edges[b], histogram.edges[b + 1]
                bars.append(_bar(frame, start, end, low, low + number, kind, title))
                low += number
    return bars


def _range(histogram: GainHistogram, b: int) -> str:
    """The gains of a bin in words; the first and the last bin are open."""
    start, end = histogram.edges[b], histogram.edges[b + 1]
    if b == 0:
        return f"below {end:g} nats"
    if b == len(histogram.counts) - 1:
        return f"{start:g} nats or more"
    return f"{start:g} to {end:g} nats"


def _bar(
    frame: _Frame, start: float, end: float, low: int, high: int, kind: str, title: str
) -> Markup:
    x, y = frame.x(start) + 1, frame.y(high)
    return Markup(
        '<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}">'
        "<title>{title}</title></rect>"
    ).format(
        kind=kind,
        x=x,
        y=y,
        w=round(frame.x(end) - x - 1, 1),
        h=round(frame.y(low) - y, 1),
        title=title,
    )


def _axes(frame: _Frame) -> list[Markup]:
    baseline = frame.y(0)
    parts = [line("axis", _LEFT, baseline, _WIDTH - _RIGHT, baseline)]
    step = 0.5 if frame.gain_max - frame.gain_min <= 4 else 1.0
    gain = -step * int(-frame.gain_min / step)
    while gain <= frame.gain_max:
        parts.append(label("tick middle", frame.x(gain), baseline + 20, f"{gain:g}"))
        gain += step
    for count in (frame.count_max // 2, frame.count_max):
        if count:
            parts.append(line("grid", _LEFT, frame.y(count), _WIDTH - _RIGHT, frame.y(count)))
            parts.append(label("tick end", _LEFT - 6, frame.y(count) + 4, f"{count:,}"))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(label("tick middle", middle, _HEIGHT - 8, "gain L\u207b \u2212 L\u207a (nats)"))
    parts.append(label("tick", 2, 16, "calls"))
    return parts


def _threshold(frame: _Frame, tau_f: float) -> list[Markup]:
    x = frame.x(tau_f)
    return [
        line("tau", x, _TOP - 10, x, frame.y(0)),
        label("tau middle", x, _TOP - 16, _TAU_F.format(f"{tau_f:g}")),
    ]
