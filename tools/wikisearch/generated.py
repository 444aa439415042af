"""Passages and queries made up with a seed: words as rare as Zipf's law has them.

Real passages of any number are large to keep and slow to get; what an index costs depends on how
many terms there are and how often each occurs.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from tools.wikisearch.passages import Passage

WORDS_PER_PASSAGE = 60
_VOCABULARY = 200_000
_EXPONENT = 1.07  # of English text, about
_SYLLABLES = [c + v for c in "bcdfghjklmnprstvwz" for v in "aeiou"]
_PASSAGES_AT_ONCE = 10_000


def generated_passages(num_passages: int, *, seed: int) -> Iterator[Passage]:
    """Passages of 60 words. The same seed gives the same ones, whatever their number."""
    words, cumulative = _words(), _cumulative()
    rng = np.random.default_rng(seed)
    for start in range(0, num_passages, _PASSAGES_AT_ONCE):
        ranks_PW = np.searchsorted(cumulative, rng.random((_PASSAGES_AT_ONCE, WORDS_PER_PASSAGE)))
        for number, row in enumerate(words[ranks_PW][: num_passages - start].tolist(), start):
            yield Passage(title=f"Page {number}", section=(), text=" ".join(row))


def generated_queries(num_queries: int, *, seed: int) -> list[str]:
    """Queries of 2 to 5 words, each as likely as in a passage."""
    words, cumulative = _words(), _cumulative()
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, num_queries)
    return [" ".join(words[np.searchsorted(cumulative, rng.random(size))]) for size in sizes]


@cache
def _words() -> np.ndarray:
    """The word of each rank, the commonest first and shortest."""
    return np.array([_word(rank) for rank in range(_VOCABULARY)], dtype=object)


def _word(rank: int) -> str:
    word, rest = "x", rank
    while True:
        rest, syllable = divmod(rest, len(_SYLLABLES))
        word += _SYLLABLES[syllable]
        if rest == 0:
            return word


def _cumulative() -> np.ndarray:
    shares = 1.0 / np.arange(1, _VOCABULARY + 1) ** _EXPONENT
    cumulative: np.ndarray = np.cumsum(shares) / shares.sum()
    cumulative[-1] = 1.0
    return cumulative
