"""Parts of inline SVG. Colours come from classes in the page's style sheet."""

from collections.abc import Iterable

from markupsafe import Markup


def picture(width: int, height: int, parts: Iterable[Markup], *, title: str) -> Markup:
    """An <svg> that is as wide as its place, with what it shows for those who do not see it."""
    return Markup('<svg viewBox="0 0 {w} {h}" role="img" aria-label="{title}">{body}</svg>').format(
        w=width, h=height, title=title, body=Markup("").join(parts)
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> Markup:
    """A line, with a `title` shown to those who point at it."""
    about = Markup("<title>{}</title>").format(title) if title else ""
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}">{}</line>').format(
        kind, x1, y1, x2, y2, about
    )


def label(kind: str, x: float, y: float, text: str) -> Markup:
    """A text at a place."""
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, x, y, text)


def round_up(count: float) -> int:
    """The next even number with one or two leading digits: 2, 4, ..., 10, 12, ..., 100, 120."""
    magnitude = 1
    while count > 20 * magnitude:
        magnitude *= 10
    step = 2 * magnitude
    return max(2, int(-(-count // step) * step))
