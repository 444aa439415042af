"""Pages of the KILT knowledge source: one JSON record each (paper section 3, Wikipedia Search).

A record's `text` is a list of paragraphs. The first repeats the title; a heading is a paragraph
of its own, "Section::::History.:Typographic variants."; a list item starts with "BULLET::::".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SECTION = "Section::::"
_LEAD_SECTION = "Abstract"  # KILT's name for what stands before the first heading
_BULLET = re.compile(r"\s*BULLET::::\s*(?:[-*#]|\d+\.)?\s*|\s*[-*]\s+")
# Headings are joined by ":" after the full stop, "!" or "?" that ends each of them.
_NESTED = re.compile(r"(?<=[.!?]):(?=\S)")
_MAX_UNMARKED_HEADING_WORDS = 4
_DROPPED_SECTIONS = frozenset(
    {
        "citations",
        "external links",
        "footnotes",
        "further reading",
        "gallery",
        "general references",
        "notes",
        "notes and references",
        "references",
        "references and notes",
        "see also",
        "sources",
        "works cited",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph or a list item, in one line, with the headings it stands under."""

    section: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    title: str
    paragraphs: tuple[Paragraph, ...]


def parse_page(title: str, text: Sequence[str]) -> Page:
    """The page with its readable paragraphs; sections such as References are left out."""
    lines = [" ".join(line.split()) for line in text]
    if lines and lines[0] == title:
        lines = lines[1:]
    has_marked_headings = any(line.startswith(_SECTION) for line in lines)
    paragraphs: list[Paragraph] = []
    section: tuple[str, ...] = ()
    for place, line in enumerate(lines):
        if line.startswith(_SECTION):
            section = parse_heading(line)
        elif place > 0 and not has_marked_headings and _looks_like_heading(line):
            section = (line.removesuffix("."),)
        elif not any(heading.casefold() in _DROPPED_SECTIONS for heading in section):
            bullet = _BULLET.match(line)
            if body := line[bullet.end() :] if bullet else line:
                paragraphs.append(Paragraph(section=section, text=body))
    return Page(title=title, paragraphs=tuple(paragraphs))


def parse_heading(line: str) -> tuple[str, ...]:
    """The path of headings in "Section::::A.:B."; the lead has the empty path."""
    headings = _NESTED.split(line.removeprefix(_SECTION).strip())
    path = tuple(name for heading in headings if (name := heading.removesuffix(".").strip()))
    return () if path == (_LEAD_SECTION,) else path


def _looks_like_heading(line: str) -> bool:
    """Some exports in KILT's form lost the marker and left "History." as a paragraph."""
    body = line.removesuffix(".")
    return (
        line.endswith(".")
        and len(line.split()) <= _MAX_UNMARKED_HEADING_WORDS
        and body[:1].isalnum()
        and not body[0].islower()
        and not any(mark in body for mark in ".!?,;:")
    )
