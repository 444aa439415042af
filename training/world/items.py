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
    their tool answers. An item that opens a paragraph stands at the beginning of a line.
    """

    text: str
    calls: tuple[Answered, ...] = ()
    wrong: tuple[tuple[Answered, ...], ...] = ()
    opens_paragraph: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A call that helps predict the word which begins (with its space) at `offset`."""

    offset: int
    right: Answered
    wrong: tuple[Answered, ...]


def join_items(items: list[Item], separators: list[str]) -> tuple[str, tuple[Mark, ...]]:
    """The text of all items without call marks, and the marks by character offset."""
    marked = items[0].text
    for item, separator in zip(items[1:], separators, strict=True):
        marked += separator + item.text
    answers = [pair for item in items for pair in zip(item.calls, item.wrong, strict=True)]
    pieces = marked.split(MARK)
    assert len(pieces) == len(answers) + 1, f"{marked!r}: {len(answers)} calls"
    marks, offset = [], 0
    for piece, (right, wrong) in zip(pieces, answers, strict=False):
        offset += len(piece)
        marks.append(Mark(offset=offset, right=right, wrong=wrong))
    return "".join(pieces), tuple(marks)
