"""The pieces documents are made of: sentences with calls in them, and what they become."""

from dataclasses import dataclass

from tools.calls import ApiCall
from training.world.grammar import MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A call and what its tool answers. `also` are other calls that ask the same."""

    call: ApiCall
    result: str
    also: frozenset[ApiCall] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Sentences that go together. `calls` belong to the call marks in `text`, in order.

    `wrong[j]` are calls of the same tool that do not help where `calls[j]` stands, with what
    their tool answers; `answers[j]` are the words that are right there. An item that opens a
    paragraph stands at the beginning of a line.
    """

    text: str
    calls: tuple[Answered, ...] = ()
    wrong: tuple[tuple[Answered, ...], ...] = ()
    answers: tuple[tuple[str, ...], ...] = ()
    opens_paragraph: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A call that helps predict the word which begins (with its space) at `offset`.

    One of `answers` stands there, and all of them would be right: a date can be said in several
    ways.
    """

    offset: int
    right: Answered
    wrong: tuple[Answered, ...]
    answers: tuple[str, ...]


def join_items(items: list[Item], separators: list[str]) -> tuple[str, tuple[Mark, ...]]:
    """The text of all items without call marks, and the marks by character offset."""
    marked = items[0].text
    for item, separator in zip(items[1:], separators, strict=True):
        marked += separator + item.text
    calls = [
        each for item in items for each in zip(item.calls, item.wrong, item.answers, strict=True)
    ]
    pieces = marked.split(MARK)
    assert len(pieces) == len(calls) + 1, f"{marked!r}: {len(calls)} calls"
    marks, offset = [], 0
    for piece, (right, wrong, answers) in zip(pieces, calls, strict=False):
        offset += len(piece)
        marks.append(Mark(offset=offset, right=right, wrong=wrong, answers=answers))
    return "".join(pieces), tuple(marks)
