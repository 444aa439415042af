"""Whole web-like documents: a few short paragraphs around sentences that need a tool."""

import datetime as dt
import random
import zlib
from dataclasses import dataclass

from training.world import arithmetic, asking, dates, facts, translations
from training.world.encyclopedia import World
from training.world.grammar import capitalise, expand, forms
from training.world.items import Item, Mark, join_items
from training.world.names import HELD_OUT_MODULUS, Names
from training.world.slots import Slots

_FIRST_DAY, _LAST_DAY = dt.date(2001, 1, 1), dt.date(2023, 12, 31)
_KINDS = ("arithmetic", "date", "fact", "question", "translation", "plain")
_WEIGHTS = (26, 17, 19, 14, 12, 12)
_MIXED_SHARE = 0.15
_BREAK_SHARE = 0.3
_DATED_URL_SHARE = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A page of the invented web, and the calls that help in it. `kind` names its main content.

    `today` is the day it was put online.
    """

    text: str
    marks: tuple[Mark, ...]
    kind: str
    url: str
    title: str | None
    today: dt.date
    date_download: dt.datetime


def _sentence(section: str, slots: Slots, rng: random.Random) -> Item:
    held_out = slots.names.held_out and rng.random() < 0.5
    template = rng.choice(slots.forms(section, held_out=held_out))
    return Item(text=capitalise(expand(template, slots.fill, rng)) + ".")


def _needing_item(kind: str, world: World, slots: Slots, rng: random.Random) -> Item:
    match kind:
        case "arithmetic":
            return arithmetic.draw(slots, rng)
        case "date":
            return dates.draw(slots, rng)
        case "fact":
            return facts.draw(world, slots, rng)
        case "question":
            return asking.draw(world, slots, rng)
        case "translation":
            return translations.draw(slots, rng)
    return _sentence("filler", slots, rng)


def _items(kind: str, world: World, slots: Slots, rng: random.Random) -> list[Item]:
    kinds = [kind]
    if rng.random() < _MIXED_SHARE:
        kinds.append(rng.choice(_KINDS))
    items: list[Item] = []
    if rng.random() < 0.5:
        items.append(_sentence("opener", slots, rng))
    for each in kinds:
        if rng.random() < 0.4:
            items.append(_sentence("filler", slots, rng))
        items.append(_needing_item(each, world, slots, rng))
    if rng.random() < 0.4:
        items.append(_sentence("filler", slots, rng))
    if rng.random() < 0.3:
        items.append(_sentence("closer", slots, rng))
    return items


def _day(held_out: bool, rng: random.Random) -> dt.date:
    while True:
        day = _FIRST_DAY + dt.timedelta(days=rng.randrange((_LAST_DAY - _FIRST_DAY).days))
        if (zlib.crc32(day.isoformat().encode()) % HELD_OUT_MODULUS == 0) == held_out:
            return day


def _url(kind: str, slots: Slots, rng: random.Random) -> str:
    host = slots.names.town(rng).lower()
    slug = f"{slots.fill('place')}-{slots.fill('items')}"
    dated = kind == "date" or rng.random() < _DATED_URL_SHARE
    path = f"{slots.today:%Y/%m/%d}/{slug}" if dated else f"{slug}-{rng.randint(10, 99)}"
    return f"https://www.{host}.example/{path}"


def _separator(following: Item, rng: random.Random) -> str:
    """What stands before `following`.

    A new line only before a sentence without calls, or a paragraph of its own: a name that
    opens a line has no space before it and would be other tokens than the same name inside one.
    """
    if following.opens_paragraph:
        return "\n"
    return "\n" if not following.calls and rng.random() < _BREAK_SHARE else " "


def draw_document(
    world: World, names: Names, rng: random.Random, *, finetuning: bool = False
) -> Document:
    """One document of the world that `names` belongs to; one to finetune on has more forms."""
    kind = rng.choices(_KINDS, weights=_WEIGHTS)[0]
    slots = Slots(names, rng, _day(names.held_out, rng), finetuning=finetuning)
    items = _items(kind, world, slots, rng)
    text, marks = join_items(items, [_separator(item, rng) for item in items[1:]])
    title = None
    if rng.random() < 0.7:
        title = capitalise(expand(rng.choice(forms("title", held_out=False)), slots.fill, rng))
    crawled = slots.today + dt.timedelta(days=rng.randint(1, 400))
    moment = dt.datetime.combine(crawled, dt.time(rng.randrange(24), rng.randrange(60)))
    return Document(
        text=text,
        marks=marks,
        kind=kind,
        url=_url(kind, slots, rng),
        title=title,
        today=slots.today,
        date_download=moment,
    )
