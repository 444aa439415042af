"""What a model should write where a call helps, and whether it does."""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tools.calls import ApiCall
from training.world import arithmetic, dates
from training.world.document import Document
from training.world.slots import MONTHS, WEEKDAYS

_WORDS = 5
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DAY = rf"(?:{'|'.join(MONTHS)}) [0-9]{{1,2}}"
_YEAR = "[0-9]{4}"
_DATE = re.compile(
    rf"\b(?:(?:{'|'.join(WEEKDAYS)})(?:, {_DAY}(?:, {_YEAR})?)?|{_DAY}(?:, {_YEAR})?|{_YEAR})\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The beginning of a document, up to a place where a call helps.

    `calls` are those that ask the right thing there, all of one tool, and `answers` the words that
    are right next. `today` is the day the document was put online.
    """

    prompt: str
    today: dt.date
    calls: frozenset[ApiCall]
    answers: tuple[str, ...]

    @property
    def tool(self) -> str:
        return next(iter(self.calls)).tool

    def is_answered(self, text: str) -> bool:
        """Whether `text`, which goes on after the prompt, has a right answer, as the paper judges.

        A sum is right when the first number is (section 4.2.2); a date when all that is first said
        of it is; any other answer is not part of a longer word. An answer begins within the first
        five words (section 4.2.1).
        """
        if self.tool == arithmetic.TOOL:
            found = _NUMBER.search(text)
        elif self.tool == dates.TOOL:
            found = _DATE.search(text)
        else:
            found = re.search(rf"\b(?:{'|'.join(map(re.escape, self.answers))})\b", text)
        if found is None or found[0] not in self.answers:
            return False
        return self.tool == arithmetic.TOOL or len(text[: found.start()].split()) < _WORDS


def questions(documents: Iterable[Document]) -> list[Question]:
    """A question for each call of the documents, in order."""
    return [
        Question(
            prompt=document.text[: mark.offset],
            today=document.today,
            calls=frozenset({mark.right.call}) | mark.right.also,
            answers=mark.answers,
        )
        for document in documents
        for mark in document.marks
    ]
