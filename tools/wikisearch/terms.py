"""Search terms of a text, the way Lucene's English analyzer makes them, for texts and queries."""

import re
from collections.abc import Iterator

import Stemmer
from bm25s.stopwords import STOPWORDS_EN  # Lucene's 33 words

_WORD = re.compile(r"\w+(?:['\u2019]s\b)?")
_POSSESSIVE = re.compile(r"['\u2019]s$")
_STOP_WORDS = frozenset(STOPWORDS_EN)


class Analyzer:
    """Lower case, no possessive, no stop words, Snowball English stems."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("english")

    def terms(self, text: str) -> Iterator[str]:
        """The terms of `text` in order, with repetitions."""
        for match in _WORD.finditer(text.lower()):
            word = _POSSESSIVE.sub("", match.group())
            if word not in _STOP_WORDS:
                yield self._stemmer.stemWord(word)
