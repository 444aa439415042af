"""Sentences that state a fact which stands in the encyclopedia."""

import random

from training.world.encyclopedia import Entity, Fact, World
from training.world.grammar import MARK, capitalise, expand
from training.world.items import Answered, Item
from training.world.slots import Slots

_PRONOUNS = {
    "person": ("she", "he", "she", "he"),
    "town": ("it", "the town"),
    "company": ("it", "the firm", "the company"),
    "river": ("it", "the river"),
    "book": ("it", "the book"),
}
_MENTION_SHARE = 0.35


def _statement(entity: Entity, fact: Fact, slots: Slots, rng: random.Random) -> str:
    """One sentence with the call mark before the answer, after one that names the entity.

    The first sentence is left out at times, where the statement names the entity itself.
    """
    held_out = slots.names.held_out
    slots.set(subject=entity.title, answer=fact.answer, it=rng.choice(_PRONOUNS[entity.kind]))
    template = rng.choice(slots.forms(fact.relation, held_out=held_out))
    statement = capitalise(expand(template, slots.fill, rng)) + "."
    named = entity.title in statement.split(MARK)[0]
    if named and rng.random() > _MENTION_SHARE:
        return statement
    mention = rng.choice(slots.forms("mention", held_out=held_out and rng.random() < 0.5))
    return f"{capitalise(expand(mention, slots.fill, rng))}. {statement}"


def draw(world: World, slots: Slots, rng: random.Random) -> Item:
    """A statement about an entity of `world` whose answer the encyclopedia knows."""
    entity = rng.choice(world.entities)
    fact = rng.choice(entity.facts)
    others = [other for other in entity.facts if other is not fact]
    stranger = rng.choice(world.entities)
    wrong: list[Answered] = [entity.answered(other) for other in others[:1]]
    if stranger is not entity:
        wrong.append(stranger.answered(rng.choice(stranger.facts)))
    text = _statement(entity, fact, slots, rng)
    right = entity.answered(fact)
    return Item(text=text, calls=(right,), wrong=(tuple(wrong),), answers=((fact.answer,),))
