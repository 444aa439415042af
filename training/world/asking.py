"""Sentences that ask for a fact of the encyclopedia and give the short answer."""

import random

from training.world.encyclopedia import World
from training.world.grammar import capitalise, expand
from training.world.items import Item
from training.world.questions import answered
from training.world.slots import Slots


def draw(world: World, slots: Slots, rng: random.Random) -> Item:
    """A question about an entity of `world`, in running text, and its answer.

    Held out: the sentence around the question, the way it is put, or both.
    """
    held_out = slots.names.held_out
    entity = rng.choice(world.entities)
    fact = rng.choice(entity.facts)
    new = rng.choice(("sentence", "clause", "both")) if held_out else ""
    clause = rng.choice(slots.forms(f"clause.{fact.relation}", held_out=new in ("clause", "both")))
    sentence = rng.choice(slots.forms("asking.sentence", held_out=new in ("sentence", "both")))
    slots.set(subject=entity.title, answer=fact.answer)
    slots.set(clause=expand(clause, slots.fill, rng))
    text = capitalise(expand(sentence, slots.fill, rng)) + "."
    stranger = rng.choice(world.entities)
    others = [(entity, other) for other in entity.facts if other is not fact][:1]
    others += [(stranger, rng.choice(stranger.facts))] if stranger is not entity else []
    wrong = tuple(answered(*other, rng) for other in others)
    right = answered(entity, fact, rng)
    return Item(text=text, calls=(right,), wrong=(wrong,), answers=((fact.answer,),))
