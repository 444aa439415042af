"""What the plots of an evaluation share: colours, axes, files."""

import math
from collections.abc import Iterable

from markupsafe import Markup

from pipeline.report.svg import picture

NUM_KINDS = 6  # of curves, by colour; see _STYLE
CHARACTER = 8.6  # about the width of a wide one

# Distinguishable without red beside green (Okabe and Ito), lighter on dark paper. No plot needs
# its colours: bars are named, and curves differ in their marks and dashes as well.
_STYLE = Markup(
    """<style>
svg { --ink:#1c2227; --soft:#5a6670; --line:#e2e1dc; --bar:#8fb0cf; --best:#3d8f70; --paper:#fff;
  --k0:#0072b2; --k1:#d55e00; --k2:#009e73; --k3:#a8568a; --k4:#b57d00; --k5:#444c52;
  font:13px system-ui, "DejaVu Sans", sans-serif; background:var(--paper); }
@media (prefers-color-scheme: dark) { svg { --ink:#e4e7e9; --soft:#9aa5ae; --line:#2f363c;
  --bar:#44678a; --best:#3d8f70; --paper:#14171a;
  --k0:#56b4e9; --k1:#f08a4b; --k2:#3fc79f; --k3:#dd9fc4; --k4:#e6b84c; --k5:#c3cad0; } }
text { fill:var(--soft); } text.name, text.best { fill:var(--ink); font-weight:600; }
text.middle { text-anchor:middle; } text.end { text-anchor:end; }
line.axis { stroke:var(--soft); } line.grid { stroke:var(--line); }
line.interval { stroke:var(--ink); stroke-width:1.2; }
rect.bar { fill:var(--bar); } rect.best { fill:var(--best); }
.k0 { --kind:var(--k0); } .k1 { --kind:var(--k1); } .k2 { --kind:var(--k2); }
.k3 { --kind:var(--k3); } .k4 { --kind:var(--k4); } .k5 { --kind:var(--k5); }
g.curve line, g.curve polyline { fill:none; stroke:var(--kind); stroke-width:1.6; }
g.curve path { fill:var(--kind); stroke:var(--paper); }
</style>"""
)


def svg_file(width: float, height: float, parts: Iterable[Markup], *, title: str) -> str:
    """The text of an SVG file in the reader's light or dark colours, with `title` for all."""
    named = Markup("<title>{}</title>").format(title)
    svg = picture(round(width), round(height), [named, _STYLE, *parts], title=title)
    return str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def ticks_to(largest: float) -> list[float]:
    """Five to eleven round numbers from 0 to the first that is not below `largest`."""
    if largest <= 0:
        return ticks_to(1.0)
    power = 10.0 ** math.floor(math.log10(largest / 5))
    step = max(step * power for step in (1, 2, 5, 10) if step * power <= largest / 4)
    return [round(number * step, 12) for number in range(math.ceil(largest / step - 1e-9) + 1)]
