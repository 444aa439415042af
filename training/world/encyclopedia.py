"""The entities of a world, their facts, and their pages as KILT records."""

import random
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from tools.calls import ApiCall
from training.world.grammar import capitalise, expand, forms
from training.world.items import Answered
from training.world.names import Names

TOOL = "WikiSearch"
_RELATIONS = {
    "person": ("birthplace", "teacher", "work"),
    "town": ("mayor", "river", "province"),
    "company": ("founder", "headquarters", "founding"),
    "river": ("mouth", "source"),
    "book": ("author",),
}
KINDS = tuple(_RELATIONS)
_SIZES = {"person": 12, "town": 8, "company": 6, "river": 4, "book": 4}  # relative shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One relation of one entity: `sentence` states it under the heading of its page."""

    relation: str
    answer: str
    sentence: str

    @property
    def heading(self) -> str:
        return self.relation.capitalize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A page of the encyclopedia."""

    title: str
    kind: str
    lead: str
    facts: tuple[Fact, ...]

    def answered(self, fact: Fact) -> Answered:
        """The search that finds `fact`, and the passage it finds."""
        query = f'"{fact.relation} of {self.title}"'
        passage = " > ".join((self.title, fact.heading, fact.sentence))
        return Answered(call=ApiCall(TOOL, query), result=passage)


class World:
    """Entities that refer to each other. The same names, size and generator give the same world.

    `size` counts the pages, about.
    """

    def __init__(self, names: Names, size: int, rng: random.Random) -> None:
        self._rng = rng
        draw: dict[str, Callable[[random.Random], str]] = {
            "person": names.person,
            "town": names.town,
            "company": names.company,
            "river": names.river,
            "book": names.book,
        }
        total = sum(_SIZES.values())
        self._titles = {
            kind: sorted({draw[kind](rng) for _ in range(max(2, size * share // total))})
            for kind, share in _SIZES.items()
        }
        self._names = names
        self.entities = tuple(
            self._entity(kind, title) for kind in KINDS for title in self._titles[kind]
        )

    def _answer(self, relation: str, title: str) -> str:
        pools = {
            "birthplace": "town",
            "headquarters": "town",
            "teacher": "person",
            "mayor": "person",
            "founder": "person",
            "author": "person",
            "river": "river",
            "work": "book",
        }
        if relation in pools:
            return self._other(self._titles[pools[relation]], title)
        match relation:
            case "province":
                return self._names.region(self._rng)
            case "mouth":
                return self._names.water(self._rng)
            case "source":
                return self._names.mountain(self._rng)
            case "founding":
                return str(self._rng.randint(1750, 1994))
        raise AssertionError(relation)

    def _other(self, titles: list[str], title: str) -> str:
        """One of `titles`, which are sorted, but not `title`."""
        at = bisect_left(titles, title)
        if titles[at : at + 1] != [title]:
            return self._rng.choice(titles)
        chosen = self._rng.choice(range(len(titles) - 1))
        return titles[chosen + (chosen >= at)]

    def _entity(self, kind: str, title: str) -> Entity:
        def write(section: str, answer: str) -> str:
            template = self._rng.choice(forms(section, held_out=False))
            fillings = {"subject": title, "answer": answer}
            return capitalise(expand(template, fillings.__getitem__, self._rng))

        facts = []
        for relation in _RELATIONS[kind]:
            answer = self._answer(relation, title)
            sentence = write(f"entry.{relation}", answer)
            facts.append(Fact(relation=relation, answer=answer, sentence=sentence))
        return Entity(title=title, kind=kind, lead=write(f"lead.{kind}", ""), facts=tuple(facts))


def kilt_record(entity: Entity, number: int) -> dict[str, object]:
    """The page as a line of a KILT knowledge source: paragraphs, each section after its heading."""
    text = [f"{entity.title}\n", f"{entity.lead}\n"]
    for fact in entity.facts:
        text += [f"Section::::{fact.heading}.\n", f"{fact.sentence}\n"]
    page_id = str(number)
    return {
        "_id": page_id,
        "wikipedia_id": page_id,
        "wikipedia_title": entity.title,
        "text": text,
        "anchors": [],
        "categories": entity.kind,
    }
