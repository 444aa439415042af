"""Passages of an encyclopedia as Atlas keeps them: one per section, its title with the heading."""

import json
from itertools import groupby
from pathlib import Path
from typing import TypedDict

from tools.base import InputError
from tools.wikisearch.kilt import parse_page
from training.world.encyclopedia import Entity, kilt_record


class Passage(TypedDict):
    """One entry of Meta's passages.N.pt; `title` already ends with the section."""

    id: str
    title: str
    section: str
    text: str


def page_passages(record: dict[str, object]) -> list[Passage]:
    """The passages of one line of a KILT knowledge source, in the order of the page."""
    title, text = record["wikipedia_title"], record["text"]
    assert isinstance(title, str) and isinstance(text, list)
    passages: list[Passage] = []
    by_section = groupby(parse_page(title, text).paragraphs, key=lambda each: each.section)
    for number, (headings, paragraphs) in enumerate(by_section):
        section = ", ".join(headings)
        passages.append(
            Passage(
                id=f"{record['wikipedia_id']}-{number}",
                title=f"{title}: {section}" if section else title,
                section=section,
                text=" ".join(paragraph.text for paragraph in paragraphs),
            )
        )
    return passages


def entity_passages(entity: Entity, number: int) -> list[Passage]:
    """The lead of an entity's page, then one passage per fact, in the order of its facts."""
    passages = page_passages(kilt_record(entity, number))
    assert len(passages) == 1 + len(entity.facts), entity.title
    return passages


def read_encyclopedia(path: Path) -> list[Passage]:
    """The passages of a file of KILT records.

    Raises InputError where the file is missing, empty, or a line is not a KILT record.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such encyclopedia; write one with: python -m training world")
    passages: list[Passage] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            passages += page_passages(json.loads(line))
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            raise InputError(f"{path}: line {number} is not a KILT record: {error}") from error
    if not passages:
        raise InputError(f"{path}: no passages in it")
    return passages
