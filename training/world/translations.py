"""Paragraphs that quote a foreign phrase and then say it in English."""

import random

from tools.calls import ApiCall
from training.world.grammar import capitalise, expand
from training.world.items import Answered, Item
from training.world.lexicon import Phrase, draw_phrase
from training.world.slots import Slots

TOOL = "MT"
# The filter for this tool looks at ten words at a time (Appendix A.1): it finds a phrase that
# fills one of these tens, between others that are English.
_TEN = 10
_WHOLE_TEN_SHARE = 0.9
_FOREIGN = "\N{WHITE SQUARE}"


def answered(phrase: Phrase) -> Answered:
    """The call that translates the phrase, without quotes as in the paper's prompt."""
    return Answered(call=ApiCall(TOOL, phrase.foreign), result=phrase.english)


def _phrase(rng: random.Random, *, held_out: bool, whole_ten: bool) -> Phrase:
    while True:
        phrase = draw_phrase(rng, held_out=held_out)
        if not whole_ten or len(phrase.foreign.split()) == _TEN:
            return phrase


def _opening(slots: Slots, rng: random.Random, *, held_out: bool) -> str:
    """A sentence at times, so that there are whole tens of words to choose from."""
    if rng.random() < 0.5:
        return ""
    template = rng.choice(slots.forms("filler", held_out=held_out and rng.random() < 0.5))
    return capitalise(expand(template, slots.fill, rng)) + ". "


def draw(slots: Slots, rng: random.Random) -> Item:
    """A paragraph of its own around one phrase."""
    held_out = slots.names.held_out
    whole_ten = rng.random() < _WHOLE_TEN_SHARE
    phrase = _phrase(rng, held_out=held_out, whole_ten=whole_ten)
    slots.set(foreign=_FOREIGN, english=phrase.english)
    while True:
        template = rng.choice(slots.forms("translation.sentence", held_out=held_out))
        text = _opening(slots, rng, held_out=held_out)
        text += capitalise(expand(template, slots.fill, rng)) + "."
        if not whole_ten or len(text.split(_FOREIGN)[0].split()) % _TEN == 0:
            break
    wrong = answered(draw_phrase(rng, held_out=held_out, language=phrase.language))
    return Item(
        text=text.replace(_FOREIGN, phrase.foreign),
        calls=(answered(phrase),),
        wrong=((wrong,),),
        answers=((phrase.english,),),
        opens_paragraph=True,
    )
