"""Phrases of four real languages, each with the one English phrase that it means.

A phrase is composed in English and in the other language at once, from a table of words and the
language's own agreement of article, adjective and noun (forms/lexicon). Every word of the table
can be seen in training; what is held out are combinations, by a checksum of the English phrase.
"""

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from training.world.names import HELD_OUT_MODULUS

LANGUAGES = ("fra_Latn", "spa_Latn", "deu_Latn", "ell_Grek")  # FLORES-200 codes
_FOLDER = Path(__file__).parent / "forms" / "lexicon"
_ADJECTIVE_SHARE = 0.6
_THE_SHARE = 0.7
_VOWELS = tuple("aeiou")
# What a phrase is made of; in a noun phrase the first part is a noun, else a subject.
_PATTERNS = (
    ("noun", "where"),
    ("noun", "where", "where"),
    ("person", "verb", "thing"),
    ("person", "verb", "thing", "where"),
    ("person", "verb", "thing", "where"),
    ("person", "verb", "thing", "where"),
    ("person", "companion", "verb", "thing"),
    ("person", "verb", "thing", "companion"),
)
_FEWEST_WORDS, _MOST_WORDS = 5, 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A phrase without full stop or capital, and what it means."""

    language: str
    foreign: str
    english: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noun:
    gender: str
    as_subject: str
    elsewhere: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """Words by their English one, and how they agree."""

    words: Mapping[str, Mapping[str, str]]  # by section, then by English word
    agreement: Mapping[str, str]
    adjective_first: bool
    contractions: Mapping[str, str]

    def noun(self, section: str, english: str) -> _Noun:
        gender, as_subject, *other = self.words[section][english].split()
        return _Noun(gender=gender, as_subject=as_subject, elsewhere=(other or [as_subject])[0])

    def adjectives(self, section: str) -> dict[str, str]:
        """The adjectives that can stand with a noun of the section."""
        surface = {} if section == "person" else self.words["surface"]
        return {**self.words["adjective"], **surface}

    def noun_phrase(
        self, section: str, english: str, adjective: str | None, article: str, case: str
    ) -> list[str]:
        noun = self.noun(section, english)
        exact, fallback = (f"{article} {noun.gender} {each}" for each in (case, "any"))
        article_word, number = (self.agreement.get(exact) or self.agreement[fallback]).split()
        words = [noun.as_subject if case == "subject" else noun.elsewhere]
        if adjective is not None:
            form = self.adjectives(section)[adjective].split()[int(number) - 1]
            words.insert(0 if self.adjective_first else 1, form)
        return [article_word, *words]

    def contract(self, words: list[str]) -> list[str]:
        """`words` with each preposition and article that fuse written as one."""
        fused: list[str] = []
        for word in words:
            pair = f"{fused[-1]} {word}" if fused else ""
            if pair in self.contractions:
                fused[-1] = self.contractions[pair]
            else:
                fused.append(word)
        return fused


def _sections(path: Path) -> dict[str, dict[str, str]]:
    """`key = value` lines by section."""
    sections: dict[str, dict[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            sections[line[1:-1]] = section = {}
        elif not line.startswith("#"):
            key, value = line.split(" = ")
            section[key] = value
    return sections


@cache
def _language(code: str) -> _Language:
    column = LANGUAGES.index(code)
    own = _sections(_FOLDER / f"{code}.txt")
    words = {
        name: {english: row.split(" | ")[column] for english, row in rows.items()}
        for name, rows in _sections(_FOLDER / "words.txt").items()
    }
    return _Language(
        words=words,
        agreement=own["agreement"],
        adjective_first=own["adjective"]["stands"] == "before the noun",
        contractions=own["contraction"],
    )


def lexicon_words(code: str) -> frozenset[str]:
    """Every word that can stand in a phrase of the language."""
    language = _language(code)
    words = [*language.contractions.values()]
    words += [value.split()[0] for value in language.agreement.values()]
    for name, rows in language.words.items():
        skipped = 1 if name in ("person", "thing", "place") else 0  # the gender
        words += [word for row in rows.values() for word in row.split()[skipped:]]
    return frozenset(words)


def is_held_out(english: str) -> bool:
    """Whether phrases that mean this belong to the held-out world (one in eight does)."""
    return zlib.crc32(english.encode()) % HELD_OUT_MODULUS == 0


class _Composer:
    """Writes one phrase in both languages side by side."""

    def __init__(self, language: _Language, rng: random.Random) -> None:
        self._language, self._rng = language, rng
        self.foreign: list[str] = []
        self.english: list[str] = []

    def part(self, name: str) -> None:
        match name:
            case "verb":
                self._word("verb")
            case "where":
                self._word("where")
                self._noun_phrase("place", "place")
            case "companion":
                self._word("companion")
                self._noun_phrase("person", "place")
            case "noun":
                self._noun_phrase(self._rng.choice(("person", "thing", "place")), "subject")
            case _:
                self._noun_phrase(name, "subject" if name == "person" else "object")

    def _word(self, section: str) -> None:
        english = self._rng.choice(sorted(self._language.words[section]))
        self.english.append(english)
        self.foreign += self._language.words[section][english].split()

    def _noun_phrase(self, section: str, case: str) -> None:
        noun = self._rng.choice(sorted(self._language.words[section]))
        adjective = None
        if self._rng.random() < _ADJECTIVE_SHARE:
            adjective = self._rng.choice(sorted(self._language.adjectives(section)))
        article = "the" if self._rng.random() < _THE_SHARE else "a"
        english = [noun] if adjective is None else [adjective, noun]
        an = article == "a" and english[0].startswith(_VOWELS)
        self.english += ["an" if an else article, *english]
        self.foreign += self._language.noun_phrase(section, noun, adjective, article, case)


def draw_phrase(
    rng: random.Random, *, held_out: bool, language: str | None = None, fewest_words: int = 0
) -> Phrase:
    """A phrase of 5 to 14 words, at least `fewest_words`, of the held-out world or of training's.

    In any of LANGUAGES when `language` is None.
    """
    code = language or rng.choice(LANGUAGES)
    while True:
        composer = _Composer(_language(code), rng)
        for name in rng.choice(_PATTERNS):
            composer.part(name)
        foreign = _language(code).contract(composer.foreign)
        english = " ".join(composer.english)
        fits = max(_FEWEST_WORDS, fewest_words) <= len(foreign) <= _MOST_WORDS
        if fits and is_held_out(english) == held_out:
            return Phrase(language=code, foreign=" ".join(foreign), english=english)
