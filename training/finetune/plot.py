"""losses.svg: the loss of every step, and the perplexity of the development set."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipeline.report.svg import label, line, picture
from training.finetune.record import FinetuneRecord

_WIDTH, _PANEL = 640, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 16, 34, 26
_MOST_DOTS = 600  # of a longer training every so many steps are one dot, their mean

_STYLE = Markup(
    """<style>
svg { --ink:#1c2227; --soft:#5a6670; --line:#e2e1dc; --loss:#5b7fa6; --perplexity:#17714f;
  --paper:#fff; font:13px system-ui, "DejaVu Sans", sans-serif; background:var(--paper); }
@media (prefers-color-scheme: dark) { svg { --ink:#e4e7e9; --soft:#9aa5ae; --line:#2f363c;
  --loss:#8fb4dc; --perplexity:#5cc79f; --paper:#14171a; } }
line.axis { stroke:var(--soft); } line.grid { stroke:var(--line); }
text { fill:var(--soft); } text.name { fill:var(--ink); font-weight:600; }
text.middle { text-anchor:middle; } text.end { text-anchor:end; }
circle.loss { fill:var(--loss); } circle.perplexity { fill:var(--perplexity); }
polyline { fill:none; stroke:var(--perplexity); stroke-width:1.5; }
circle.best { fill:none; stroke:var(--perplexity); stroke-width:1.5; }
</style>"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """A part of the plane, and where it lies in the picture."""

    top: float
    last_step: int
    low: float
    high: float

    def x(self, step: float) -> float:
        return round(_LEFT + step / self.last_step * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.top + _PANEL - _BOTTOM - share * (_PANEL - _TOP - _BOTTOM), 1)


def losses_svg(record: FinetuneRecord) -> str:
    """A file of its own, in the reader's light or dark colours."""
    last_step = record.config.max_steps
    losses = _thinned(record.losses)
    measured = [(each.step, each.perplexity) for each in record.evaluations]
    loss_panel = _panel(0, last_step, [value for _, value in losses])
    panel = _panel(_PANEL, last_step, [value for _, value in measured])
    measures = (
        f"{record.before.perplexity:.4g} before, {record.best.perplexity:.4g} at step "
        f"{record.best_step:,}, the best"
    )
    radius = 2.5 if len(losses) < 100 else 1.6
    parts = [
        _STYLE,
        *_axes(loss_panel, "training loss (nats per token)"),
        *(_dot("loss", loss_panel, step, value, radius) for step, value in losses),
        *_axes(panel, f"perplexity of the development set: {measures}"),
        Markup('<polyline points="{}"/>').format(
            " ".join(f"{panel.x(step)},{panel.y(value)}" for step, value in measured)
        ),
        *(_dot("perplexity", panel, step, value, 3) for step, value in measured),
        _dot("best", panel, record.best_step, record.best.perplexity, 6),
        label("middle", (_LEFT + _WIDTH - _RIGHT) / 2, 2 * _PANEL + 14, "step"),
    ]
    title = f"Loss of {last_step:,} steps; perplexity {measures}"
    svg = picture(_WIDTH, 2 * _PANEL + 22, parts, title=title)
    return str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def _panel(top: float, last_step: int, values: Sequence[float]) -> _Panel:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.5
    return _Panel(top=top, last_step=last_step, low=low - room, high=high + room)


def _axes(panel: _Panel, name: str) -> list[Markup]:
    base = panel.top + _PANEL - _BOTTOM
    parts = [label("name", _LEFT, panel.top + 18, name)]
    for value in _round_numbers(panel.low, panel.high):
        parts.append(line("grid", _LEFT, panel.y(value), _WIDTH - _RIGHT, panel.y(value)))
        parts.append(label("end", _LEFT - 6, panel.y(value) + 4, f"{value:g}"))
    parts.append(line("axis", _LEFT, base, _WIDTH - _RIGHT, base))
    for step in _round_numbers(0, panel.last_step):
        if step == int(step):
            parts.append(label("middle", panel.x(step), base + 17, f"{int(step):,}"))
    return parts


def _round_numbers(low: float, high: float) -> list[float]:
    """Three to seven multiples of 1, 2 or 5 times a power of ten, from `low` to `high`."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough)
    first, last = math.ceil(low / step), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _dot(kind: str, panel: _Panel, step: int, value: float, radius: float) -> Markup:
    return Markup(
        '<circle class="{kind}" cx="{x}" cy="{y}" r="{r}"><title>{title}</title></circle>'
    ).format(
        kind=kind,
        x=panel.x(step),
        y=panel.y(value),
        r=radius,
        title=f"step {step:,}: {value:.4g}",
    )


def _thinned(losses: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `_MOST_DOTS` of them, each the mean of a few that follow each other."""
    size = -(-len(losses) // _MOST_DOTS)
    groups = [losses[start : start + size] for start in range(0, len(losses), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]
