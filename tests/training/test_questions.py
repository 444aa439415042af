import random

from training.world.encyclopedia import World
from training.world.names import Names
from training.world.questions import answered, question, questions_about, wordings


def small_world() -> World:
    return World(Names(held_out=False), 60, random.Random(2))


def test_every_fact_is_asked_about_once_and_names_its_entity() -> None:
    world = small_world()
    asked = list(questions_about(world, random.Random(0)))
    assert len(asked) == sum(len(entity.facts) for entity in world.entities)
    for text, answer, entity, fact in asked:
        assert text.endswith("?") and entity.title in text
        assert answer == fact.answer and answer not in text


def test_some_wordings_are_held_out_and_training_draws_all_the_others() -> None:
    rng = random.Random(1)
    for entity in small_world().entities:
        for fact in entity.facts:
            trained = wordings(entity, fact, held_out=False)
            held_out = wordings(entity, fact, held_out=True)
            assert len(trained) >= 3 and held_out and not set(trained) & set(held_out)
            drawn = {question(entity, fact, rng, held_out=False) for _ in range(60)}
            assert drawn == set(trained)
            assert question(entity, fact, rng, held_out=True) in held_out


def test_a_call_puts_its_question_in_double_quotes() -> None:
    entity = small_world().entities[0]
    call = answered(entity, entity.facts[0], random.Random(0)).call
    assert str(call).startswith('QA("') and str(call).endswith('?")')
