"""Search terms of a text, the way Lucene's English analyzer makes them, for texts and queries."""

import re
from collections.abc import Iterator

import Stemmer
from bm25s.stopwords import STOPWORDS_EN  # Lucene's 33 words

# Unicode's word boundaries (UAX 29), nearly: a point, colon or apostrophe between letters and a
# point or comma between digits are inside a word (o'neill, u.s, 2.5, 1,000), and so are accents.
_CHARACTER = r"[\w\u0300-\u036f]"
_INSIDE = r"(?:(?<=[^\W\d_])['\u2019.:](?=[^\W\d_])|(?<=\d)[.,](?=\d))"
_WORD = re.compile(rf"{_CHARACTER}+(?:{_INSIDE}{_CHARACTER}+)*")
_POSSESSIVE = re.compile(r"['\u2019]s$")
_SHORTEST_WITH_ENDING = 3
_STOP_WORDS = frozenset(STOPWORDS_EN)


class Analyzer:
    """Lower case, no possessive, no stop words, Porter's stems."""

    def __init__(self) -> None:
        self._stemmer = Stemmer.Stemmer("porter")

    def terms(self, text: str) -> Iterator[str]:
        """The terms of `text` in order, with repetitions."""
        for match in _WORD.finditer(text.lower()):
            word = _POSSESSIVE.sub("", match.group())
            if word not in _STOP_WORDS:
                is_stem = len(word) < _SHORTEST_WITH_ENDING
                yield word if is_stem else self._stemmer.stemWord(word)
