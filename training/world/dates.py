"""Sentences that state today's date, and sentences that state some other date."""

import random

from tools.calls import ApiCall
from training.world.grammar import capitalise, expand, forms
from training.world.items import Answered, Item
from training.world.slots import MONTHS, WEEKDAYS, Slots

TOOL = "Calendar"
_YEAR_SHARE = 0.08
_PAST_SHARE = 0.2
_AFTER_SHARE = 0.5


def today_sentence(slots: Slots) -> str:
    """What the calendar answers on the day the page was put online."""
    day = slots.today
    weekday, month = WEEKDAYS[day.weekday()], MONTHS[day.month - 1]
    return f"Today is {weekday}, {month} {day.day}, {day.year}."


def draw(slots: Slots, rng: random.Random) -> Item:
    """A sentence that needs today's date, at times with a past date or a remark around it."""
    held_out = slots.names.held_out
    answers: tuple[str, ...] = (str(slots.today.year),)
    if rng.random() < _YEAR_SHARE:
        template = rng.choice(slots.forms("year.sentence", held_out=held_out))
    else:
        dates = [expand(form, slots.fill, rng) for form in forms("date.form", held_out=False)]
        slots.set(date=rng.choice(dates))
        answers = tuple(dict.fromkeys(dates))
        template = rng.choice(slots.forms("date.sentence", held_out=held_out))
    text = capitalise(expand(template, slots.fill, rng)) + "."
    if rng.random() < _PAST_SHARE:
        past = rng.choice(slots.forms("past.sentence", held_out=held_out and rng.random() < 0.5))
        past_text = capitalise(expand(past, slots.fill, rng)) + "."
        text = f"{past_text} {text}" if rng.random() < 0.5 else f"{text} {past_text}"
    if rng.random() < _AFTER_SHARE:
        after = rng.choice(slots.forms("date.after", held_out=held_out and rng.random() < 0.5))
        text += f" {capitalise(expand(after, slots.fill, rng))}."
    right = Answered(call=ApiCall(TOOL, ""), result=today_sentence(slots))
    return Item(text=text, calls=(right,), wrong=((),), answers=(answers,))
