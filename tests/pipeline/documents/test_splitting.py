import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.splitting import split_text


def words(text: str) -> int:
    return len(text.split())


def letters(text: str) -> int:
    """As a tokenizer that spends a token on every letter and none on white space."""
    return sum(len(word) for word in text.split())


def spread(text: str) -> int:
    """Less for a whole than for its pieces together, as with tokens that cross a boundary."""
    return (letters(text) + 2) // 3


class Counter:
    """Counts what it is asked to count."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self.num_calls = self.num_characters = 0

    def __call__(self, text: str) -> int:
        self.num_calls += 1
        self.num_characters += len(text)
        return self._count(text)


def test_a_text_that_fits_stays_whole() -> None:
    assert split_text(" a b\n\nc ", words, 3) == [" a b\n\nc "]
    assert split_text("", words, 3) == [""]
    assert split_text(" \n ", words, 3) == [" \n "]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        # Paragraphs, as many as fit.
        ("a b\n\nc d\n\ne f\n\ng", ["a b\n\nc d\n\n", "e f\n\ng"]),
        # A paragraph that would fit by itself is not broken to fill a part.
        ("a b c\n\nd e f", ["a b c\n\n", "d e f"]),
        # One that does not is broken at its lines, and what fits joins the part before it.
        ("a\n\nb\nc d\ne f g", ["a\n\nb\nc d\n", "e f g"]),
        # Then at the ends of sentences,
        ("a b. c? d! e f g.", ["a b. c? d! ", "e f g."]),
        ('He said "a b." c d e', ['He said "a b." ', "c d e"]),
        ("a b\u3002c d\u3002e f g", ["a b\u3002c d\u3002", "e f g"]),
        # then at words.
        ("a b c d e f g", ["a b c d ", "e f g"]),
        # White space stays with what stands before it.
        (" \n a b c d  \n\n \n e", [" \n a b c d  \n\n \n ", "e"]),
    ],
)
def test_parts_end_where_the_text_has_a_break(text: str, parts: list[str]) -> None:
    assert split_text(text, words, 4) == parts


def test_a_word_that_does_not_fit_is_broken_between_characters() -> None:
    parts = split_text("a" * 25, letters, 10)
    assert "".join(parts) == "a" * 25
    assert len(parts) == 3


def test_a_character_with_too_many_tokens_is_a_part_of_its_own() -> None:
    parts = split_text("\U0001f600\U0001f600 a", lambda text: len(text.encode()), 3)
    assert parts == ["\U0001f600", "\U0001f600 ", "a"]


texts = st.lists(
    st.sampled_from(
        ["a", "bc", " ", "  ", "\n", "\n\n", ". ", "\u3002", "!\n", "defghijklmn", "\t"]
    )
).map("".join)


@settings(deadline=None)
@given(texts | st.text(), st.integers(1, 8), st.sampled_from([words, letters, spread]))
def test_parts_are_the_text_fit_and_none_is_blank(
    text: str, max_tokens: int, count: Callable[[str], int]
) -> None:
    parts = split_text(text, count, max_tokens)
    assert "".join(parts) == text
    for part in parts:
        assert count(part) <= max_tokens or len(part.strip()) == 1
        assert part.strip() or parts == [text]
        assert part[:1].strip() or part is parts[0]


@settings(deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.integers(5, 12))
def test_paragraphs_that_fit_are_packed_into_as_few_parts_as_possible(
    sizes: list[int], max_tokens: int
) -> None:
    """Filling each part before the next begins is best when the order is given."""
    text = "\n\n".join(" ".join(["w"] * size) for size in sizes)
    fewest, room = 1, max_tokens
    for size in sizes:
        if size > room:
            fewest, room = fewest + 1, max_tokens
        room -= size
    assert len(split_text(text, words, max_tokens)) == fewest


def thousands_of_paragraphs() -> str:
    rng = random.Random(0)
    return "\n\n".join("word and " * rng.randint(1, 80) for _ in range(4000))


@pytest.mark.parametrize(
    "text",
    ["word " * 200_000, "word and. " * 100_000, "x" * 2_000_000, thousands_of_paragraphs()],
    ids=["words", "sentences", "letters", "paragraphs"],
)
def test_the_work_is_a_small_multiple_of_a_long_text(text: str) -> None:
    counter = Counter(spread)
    parts = split_text(text, counter, 400)
    assert "".join(parts) == text
    assert counter.num_characters < 12 * len(text)
    assert counter.num_calls < len(text) / 2
    assert len(parts) < 1.25 * spread(text) / 400 + 1


def test_a_run_of_white_space_costs_no_more_than_its_length() -> None:
    counter = Counter(words)
    text = " " * 300_000 + "a b c d" + " \n" * 150_000 + "e"
    assert "".join(split_text(text, counter, 2)) == text
    assert counter.num_characters < 12 * len(text)
