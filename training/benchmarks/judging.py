"""Whether a completion is right, by the four rules of the paper (sections 4.2.1 to 4.2.5)."""

import re
import unicodedata
from decimal import Decimal
from itertools import islice

from training.benchmarks.example import Criterion, Example

_WITHIN: dict[Criterion, int] = {
    "word_within_5": 5,
    "answer_within_20": 20,
    "answer_within_10": 10,
}
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
# Chinese and Japanese write no spaces: each of their characters is a word.
_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_LATIN = "0-9A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
# A number with its decimals, or the letters and digits of a word: Latin ones stand apart from those
# of other scripts, which may write what they add to a name without a space.
_WORD = re.compile(rf"[0-9]+(?:\.[0-9]+)+|[{_ALONE}]|[{_LATIN}]+|(?:(?![{_ALONE}A-Za-z])[^\W_])+")
# A word that counts, with the punctuation beside it.
_COUNTED = re.compile(rf"[{_ALONE}][^\w\s]*|[^\s{_ALONE}]+")
_ARTICLES = frozenset({"a", "an", "the"})

# A sign stands apart: in "5-3" and "COVID-19" the hyphen is none. Digits within a word or after
# the point of another number ("v1.5") begin no number.
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)])[-\u2212](?=\$?[0-9.]))?\$?(?<!\w)(?<![0-9]\.)"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|(?<!\.)\.[0-9]+)"
)
# The end of a sum: a sign between two numbers, which may have units, and then "=".
_UNIT = r"[^\W\d_]*(?:\s+[^\W\d_]+){0,2}"
_EQUATION = re.compile(
    rf"[0-9][%)]*{_UNIT}\s*[-+*/^x\u00d7\u00f7\u00b7\u2212]+\s*[(]*-?\$?[0-9.,]*[0-9]%?{_UNIT}[\s)]*="
)
_END = re.compile(r"\n|[.!?](?=\s|$)")  # of a sentence
_NUM_DECIMALS = 2  # of what the Calculator says


def is_right(completion: str, example: Example, criterion: Criterion) -> bool:
    """Whether `completion`, the text predicted after the prompt without its calls, is right."""
    if criterion == "number":
        predicted = predicted_number(completion)
        expected = [number_of(answer) for answer in example.answers]
        return predicted is not None and any(
            answer is not None and _same_number(predicted, answer) for answer in expected
        )
    beginning = _first_words(completion, _WITHIN[criterion])
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
    first = _NUMBER.search(completion)
    if first is None:
        return None
    # Differs from the paper: an equation counts where it is one like the paper's "5+3=8", with a
    # sign between two numbers before "=", and in the sentence of the first number. "12 apples = 1
    # dozen" is 12, and what a model writes after its answer, of another question, changes nothing.
    end = _END.search(completion, first.end())
    sentence = completion[: end.start()] if end else completion
    equation = _EQUATION.search(sentence)
    result = _NUMBER.search(sentence, equation.end()) if equation else None
    return _value(result or first)


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


def _first_words(text: str, count: int) -> str:
    """The beginning of `text` that has so many words; all of it where it has no more."""
    ends = [found.end() for found in islice(_COUNTED.finditer(text), count)]
    return text[: ends[-1]] if ends else ""


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _WORD.findall(_THOUSANDS.sub("", folded))


def _without_articles(words: list[str]) -> list[str]:
    return [word for word in words if word not in _ARTICLES]
