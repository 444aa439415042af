"""What the Atlas models learn from: questions about a training world, with its passages.

One question in four is the beginning of a statement about a fact instead, cut off where the
answer would follow ("Velmora has its seat in"): statements have many more wordings than
questions, so that words which no question of training holds still come to mean something. And in
one in three some words are replaced by others, so that a word which means nothing does no harm.
"""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from training.tool_models.passages import Passage, entity_passages
from training.world.encyclopedia import Entity, Fact, World
from training.world.grammar import MARK, capitalise, expand, forms, sections
from training.world.names import Names
from training.world.questions import questions_about

_WORLD_PAGES = 60
_STATEMENT_SHARE = 0.25
_DISTURBED_SHARE = 1 / 3
_REPLACED_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, its answer, and the numbers of the passage that holds it and of its page."""

    question: str
    answer: str
    passage: int
    page: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The passages of one world and questions about them, one for every fact."""

    passages: tuple[Passage, ...]
    asked: tuple[Asked, ...]


def draw_library(rng: random.Random, *, pages: int = _WORLD_PAGES) -> Library:
    """A fresh training world with new names, questions in random order."""
    world = World(Names(held_out=False), pages, rng)
    passages: list[Passage] = []
    starts: dict[str, int] = {}
    for number, entity in enumerate(world.entities):
        starts[entity.title] = len(passages)
        passages += entity_passages(entity, number)
    asked = []
    for question, answer, entity, fact in questions_about(world, rng):
        if rng.random() < _STATEMENT_SHARE:
            question = statement_start(entity, fact, rng)
        if rng.random() < _DISTURBED_SHARE:
            question = disturbed(question, entity.title, rng)
        start = starts[entity.title]
        asked.append(
            Asked(
                question=question,
                answer=answer,
                passage=start + 1 + entity.facts.index(fact),
                page=range(start, start + 1 + len(entity.facts)),
            )
        )
    return Library(passages=tuple(passages), asked=tuple(asked))


def statement_start(entity: Entity, fact: Fact, rng: random.Random) -> str:
    """A statement in a wording of training that names `entity`, up to where the answer follows."""
    templates = [form for form in forms(fact.relation, held_out=False) if MARK in form]
    while True:
        template = rng.choice(templates).split(MARK)[0]
        # What is open before the mark is a choice whose other half follows the answer.
        if template.count("(") == template.count(")") and (
            "{subject}" in template or "{it}" in template
        ):
            fillings = {"subject": entity.title, "it": entity.title}
            return capitalise(expand(template, fillings.__getitem__, rng))


@cache
def _vocabulary() -> tuple[str, ...]:
    """The words of all forms of training."""
    lines = (line for section in sections() for line in forms(section, held_out=False))
    return tuple(
        sorted({word for line in lines for word in re.findall(r"(?<!\{)\b[a-z]+\b", line)})
    )


def disturbed(question: str, title: str, rng: random.Random) -> str:
    """`question` with some of the words outside `title` replaced by any others."""

    def replaced(text: str) -> str:
        words = re.split(r"(\w+)", text)
        return "".join(
            rng.choice(_vocabulary()) if word.isalpha() and rng.random() < _REPLACED_SHARE else word
            for word in words
        )

    return title.join(replaced(part) for part in question.split(title))


def libraries(seed: object, *, pages: int) -> Iterator[Library]:
    """Training worlds without end."""
    rng = random.Random(f"libraries {seed}")
    while True:
        yield draw_library(rng, pages=pages)
