"""Whether a completion is right, by the four rules of the paper (sections 4.2.1 to 4.2.5)."""

import re
import unicodedata
from decimal import Decimal

from training.benchmarks.example import Criterion, Example

_WITHIN: dict[Criterion, int] = {
    "word_within_5": 5,
    "answer_within_20": 20,
    "answer_within_10": 10,
}
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
# A number with its decimals, or the letters and digits of a word.
_WORD = re.compile(r"[0-9]+(?:\.[0-9]+)+|[^\W_]+")
_ARTICLES = frozenset({"a", "an", "the"})

# A sign stands apart: in "5-3" and "COVID-19" the hyphen is none. Digits within a word or after
# the point of another number ("v1.5") begin no number.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-\u2212](?=\$?[0-9.]))?\$?(?<!\w)(?<![0-9]\.)"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<!\.)\.[0-9]+)"
)
_NUM_DECIMALS = 2  # of what the Calculator says


def is_right(completion: str, example: Example, criterion: Criterion) -> bool:
    """Whether `completion`, the text predicted after the prompt without its calls, is right."""
    if criterion == "number":
        predicted = predicted_number(completion)
        expected = [number_of(answer) for answer in example.answers]
        return predicted is not None and any(
            answer is not None and _same_number(predicted, answer) for answer in expected
        )
    beginning = " ".join(completion.split()[: _WITHIN[criterion]])
    return any(contains(beginning, answer) for answer in example.answers)


def contains(text: str, answer: str) -> bool:
    """Whether the words of `answer` stand in `text`, one after the other.

    The paper leaves open when words are the same. It loosens an exact match, which for questions
    is by convention without regard to case, punctuation and articles; so it is here. Words are
    whole: "7" is not in "1975", but "French" is in "French-born".
    """
    words, wanted = _words(text), _words(answer)
    if not _ARTICLES.issuperset(wanted):
        words, wanted = _without_articles(words), _without_articles(wanted)
    starts = range(len(words) - len(wanted) + 1)
    return bool(wanted) and any(words[at : at + len(wanted)] == wanted for at in starts)


def predicted_number(completion: str) -> Decimal | None:
    """The first number of `completion`, or the first after "=" where it has an equation.

    The paper leaves open what a number is: here it is written in digits ("eight" is none), and
    the "$" or "%" beside it is its unit.
    """
    _, _, after_equals = completion.partition("=")
    found = _NUMBER.search(after_equals) or _NUMBER.search(completion)
    return None if found is None else _value(found)


def number_of(text: str) -> Decimal | None:
    """The number that `text` is as a whole ("-1,200.50", "$3", "25%"); None if it is none."""
    found = _NUMBER.fullmatch(text.strip().removesuffix("%").rstrip())
    return None if found is None else _value(found)


def _value(found: re.Match[str]) -> Decimal:
    magnitude = Decimal(found["digits"].replace(",", ""))
    return -magnitude if found["sign"] else magnitude


def _same_number(predicted: Decimal, answer: Decimal) -> bool:
    """The paper leaves open how near: an answer with more decimals is right rounded to two."""
    exponent = answer.normalize().as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_NUM_DECIMALS:
        return abs(predicted - answer) <= Decimal("0.005")
    return predicted == answer


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_THOUSANDS.sub("", folded))


def _without_articles(words: list[str]) -> list[str]:
    return [word for word in words if word not in _ARTICLES]
