"""Which paragraphs of a text MT is offered: those with foreign text between English text.

Appendix A.1, Machine Translation: "we only keep those paragraphs which contain text chunks in a
language other than English preceded and followed by English text. We use text chunks of size 10
tokens. [...] we again use the fastText classifier with a confidence greater than 0.8. We also
filter out any text chunks that contain only numbers or special symbols."
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum

from pipeline.config import MtFilterConfig

# Whether the most probable language of a text is English, and its probability.
Identify = Callable[[str], tuple[bool, float]]

_FEWEST_CHUNKS = 3  # one in the middle, one on each side
# Scripts written without spaces, and Hangul, whose words are as dense: kana, ideographs, Thai,
# Lao, Burmese, Khmer. Between white space a Chinese sentence would be one token.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u318f\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U00020000-\U0003ffff"
)
_TOKEN = re.compile(f"[{_DENSE}]|[^\\s{_DENSE}]+")


class Verdict(StrEnum):
    """What becomes of a paragraph."""

    OFFERED = "offered"
    TOO_SHORT = "too_short"  # of fewer than three chunks with letters, none is between two
    NO_FOREIGN = "no_foreign_text"
    NOT_BETWEEN = "not_between_english"  # foreign text, but English on one side of it at most
    UNUSABLE = "unusable"  # it would be offered, but its own tokens do not spell it or do not fit


def paragraph_spans(text: str) -> Iterator[tuple[int, int]]:
    """(begin, end) in characters of every line of `text` that is not blank, without its "\\n"."""
    begin = 0
    for line in text.split("\n"):
        if line.strip():
            yield begin, begin + len(line)
        begin += len(line) + 1


def chunks(paragraph: str, num_tokens: int) -> list[str]:
    """`paragraph` cut after every `num_tokens` tokens; the last chunk may be shorter.

    Tokens are what stands between white space, and every character of a script that has none
    between its words.
    """
    tokens = [match.span() for match in _TOKEN.finditer(paragraph)]
    return [
        paragraph[tokens[first][0] : tokens[min(first + num_tokens, len(tokens)) - 1][1]]
        for first in range(0, len(tokens), num_tokens)
    ]


def judge(paragraph: str, identify: Identify, settings: MtFilterConfig) -> Verdict:
    """OFFERED if some foreign chunk has an English one before it and one after it, else why not.

    A chunk is foreign if its language is not English with more than `min_confidence`, English if
    it is with at least `english_confidence`, and else neither, as most chunks are in which a
    sentence changes its language. Chunks without a letter are left out before any of this.

    Differs from the paper: it does not say what makes the text around a chunk English, nor
    whether it is next to it; here uncertain chunks may stand between.
    """
    lettered = [c for c in chunks(paragraph, settings.chunk_tokens) if any(map(str.isalpha, c))]
    if len(lettered) < _FEWEST_CHUNKS:
        return Verdict.TOO_SHORT
    english, foreign = [], []
    for number, chunk in enumerate(lettered):
        is_english, confidence = identify(chunk)
        if is_english and confidence >= settings.english_confidence:
            english.append(number)
        elif not is_english and confidence > settings.min_confidence:
            foreign.append(number)
    if not foreign:
        return Verdict.NO_FOREIGN
    if english and any(english[0] < number < english[-1] for number in foreign):
        return Verdict.OFFERED
    return Verdict.NOT_BETWEEN
