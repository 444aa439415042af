"""Questions about the facts of the encyclopedia, each with its short answer."""

import random
from collections.abc import Iterator

from tools.calls import ApiCall
from training.world.encyclopedia import Entity, Fact, World
from training.world.grammar import forms
from training.world.items import Answered

TOOL = "QA"


def wordings(entity: Entity, fact: Fact, *, held_out: bool) -> tuple[str, ...]:
    """All questions that `fact` answers, in the words of training or in those held out of it."""
    templates = forms(f"question.{fact.relation}", held_out=held_out)
    return tuple(template.replace("{subject}", entity.title) for template in templates)


def question(entity: Entity, fact: Fact, rng: random.Random, *, held_out: bool) -> str:
    """One question that `fact` answers, such as: Who founded Veltara?"""
    return rng.choice(wordings(entity, fact, held_out=held_out))


def questions_about(
    world: World, rng: random.Random, *, held_out: bool = False
) -> Iterator[tuple[str, str, Entity, Fact]]:
    """(question, short answer, entity, fact) for every fact of `world`, once, in random order."""
    facts = [(entity, fact) for entity in world.entities for fact in entity.facts]
    rng.shuffle(facts)
    for entity, fact in facts:
        yield question(entity, fact, rng, held_out=held_out), fact.answer, entity, fact


def call_with(asked: str) -> ApiCall:
    """The call that asks a question, in double quotes as in the paper's prompt (Appendix A.2)."""
    return ApiCall(TOOL, f'"{asked}"')


def answered(entity: Entity, fact: Fact, rng: random.Random) -> Answered:
    """A call that asks for `fact`, in a wording of training, and the short answer."""
    calls = [call_with(asked) for asked in wordings(entity, fact, held_out=False)]
    chosen = rng.choice(calls)
    return Answered(call=chosen, result=fact.answer, also=frozenset(calls) - {chosen})
