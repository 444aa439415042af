"""Passages: the snippets that are indexed and returned (paper Appendix A, Table 10).

The paper shows results such as "Battle of Flodden > Commemoration > The stained-glass ..." of one
or two sentences and 28 to 45 words, but not the rule that cuts a page. Ours packs whole sentences
up to 60 words, within one section.
"""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from tools.wikisearch.kilt import Page, Paragraph
from tools.wikisearch.sentences import split_sentences

MAX_WORDS = 60
MIN_WORDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    title: str
    section: tuple[str, ...]
    text: str

    def result(self) -> str:
        """What a search returns: "Title > Section > Subsection > text"."""
        return " > ".join([self.title, *self.section, self.text])

    def index_text(self) -> str:
        """What a search matches: the title, the headings and the text, each in a line."""
        return "\n".join([self.title, *self.section, self.text])

    @classmethod
    def from_index_text(cls, text: str) -> "Passage":
        """The passage of single lines whose `index_text` is `text`."""
        title, *section, body = text.split("\n")
        return cls(title=title, section=tuple(section), text=body)


class ContentHash:
    """A hash of passages in their order, for passages as they come."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, passage: Passage) -> None:
        self._digest.update(repr((passage.title, passage.section, passage.text)).encode())

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def cut_page(page: Page) -> tuple[list[Passage], int]:
    """The passages of `page` in order, and the number of snippets under 5 words left out."""
    passages, num_short = [], 0
    for section, paragraphs in groupby(page.paragraphs, key=lambda paragraph: paragraph.section):
        for words in _pack(paragraphs):
            if len(words) < MIN_WORDS:
                num_short += 1
            else:
                passages.append(Passage(title=page.title, section=section, text=" ".join(words)))
    return passages, num_short


def _pack(paragraphs: Iterator[Paragraph]) -> Iterator[list[str]]:
    """The words of each snippet of one section.

    A paragraph joins the open snippet only whole; one that would not fit starts a new snippet,
    and what is left of it after its last full snippet stays open.
    """
    snippet: list[str] = []
    for paragraph in paragraphs:
        if len(snippet) + len(paragraph.text.split()) > MAX_WORDS:
            if snippet:
                yield snippet
            snippet = []
        for piece in _pieces(paragraph.text):
            if len(snippet) + len(piece) > MAX_WORDS:
                yield snippet
                snippet = []
            snippet = snippet + piece
    if snippet:
        yield snippet


def _pieces(text: str) -> Iterator[list[str]]:
    """The words of each sentence; one of over 60 words in the fewest pieces of equal length."""
    for sentence in split_sentences(text):
        words = sentence.split()
        num_pieces = math.ceil(len(words) / MAX_WORDS)
        size = math.ceil(len(words) / num_pieces)
        for start in range(0, len(words), size):
            yield words[start : start + size]
