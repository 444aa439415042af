import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.numeric import MAX_NUMBERS, has_relation, numbers


def found(text: str) -> list[tuple[int, float, int]]:
    """(token, value, decimals) of the numbers of `text`."""
    mentions = numbers(text)
    columns = (mentions.token_N, mentions.value_N, mentions.decimals_N)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def related(text: str) -> bool:
    return has_relation(numbers(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We sold 12 of 30.", [(2, 12.0, 0), (4, 30.0, 0)]),
        ("(an average of 2.87 per match)", [(3, 2.87, 2)]),
        ("658,893 people, 11.4%", [(0, 658893.0, 0), (2, 11.4, 1)]),
        ("costs $1,234.50, not \u20ac.5", [(1, 1234.5, 2), (3, 0.5, 1)]),
        ("1994-2011", [(0, 1994.0, 0), (0, 2011.0, 0)]),
        ("v1.2.3 and B12 and 1,23 and 5,6,7", []),
        ("123456789012345 1234567890123456", [(0, 123456789012345.0, 0)]),
        ("\u0663 \u00b2", []),
        ("", []),
    ],
)
def test_numbers_are_read_with_the_token_they_stand_in(
    text: str, expected: list[tuple[int, float, int]]
) -> None:
    assert found(text) == expected


def test_only_the_first_numbers_of_a_text_are_read() -> None:
    assert len(numbers("7 " * (MAX_NUMBERS + 5))) == MAX_NUMBERS


@pytest.mark.parametrize(
    "text",
    [
        "I went to Paris in 1994 and stayed there until 2011, so in total, it was 17 years.",
        "Of 1400 participants, 400 passed the test, a share of 0.29 or so.",
        "252 matches were played, and 723 goals were scored, that is 2.87 per match.",
        "He had 12 apples, got 30 more and counted 42.",
        "42 apples, of which 30 were red, the other 12 green",
        "each of 4 pays 30, so 120 in all",
        "120 for 4, so 30 each",
        "0.1 and 0.2 make 0.3",
        "2 and 2 make 4",
        "a loan of 999,999,999,999,998 and 1 more is 999,999,999,999,999",
        "3 times 1.15 is about 3.5",  # 3.45, rounded
    ],
)
def test_a_number_that_results_from_two_others_is_a_relation(text: str) -> None:
    assert related(text)


@pytest.mark.parametrize(
    "text",
    [
        "12 and 30 make",  # two numbers
        "12 and 30 make 43",
        "7 and 0 make 7",
        "7 times 1 is 7",
        "7 over 7 is 1",
        "3 squared is 9, but not 14",  # two threes are needed
        "400 of 1400 is 0.28",
        "400 of 1400 is 0.286",  # more decimals than the calculator writes
        "999,999,999,999,997 and 1 more is 999,999,999,999,999",
        "3 times 1.15 is about 3.3",
    ],
)
def test_other_numbers_are_none(text: str) -> None:
    assert not related(text)


def test_the_three_numbers_stand_within_a_hundred_tokens() -> None:
    assert related("12 30 " + "word " * 97 + "42")
    assert not related("12 30 " + "word " * 98 + "42")
    # The window counts from the first of the three to the last, wherever blocks begin.
    for lead in (0, 57, 99, 100, 150):
        assert related("word " * lead + "12 " + "word " * 50 + "30 " + "word " * 47 + "42")
        assert not related("word " * lead + "12 " + "word " * 50 + "30 " + "word " * 48 + "42")


def has_relation_slowly(values: list[int], tokens: list[int], window: int) -> bool:
    """The definition, for positive integers: three mentions, one the result of the others."""
    mentions = [mention for mention in zip(values, tokens, strict=True) if mention[0] != 0]
    for i, (a, at) in enumerate(mentions):
        for j, (b, bt) in enumerate(mentions):
            for k, (c, ct) in enumerate(mentions):
                if len({i, j, k}) < 3 or max(at, bt, ct) - min(at, bt, ct) >= window:
                    continue
                if a + b == c or (1 not in (a, b, c) and a * b == c):
                    return True
    return False


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=8))
def test_the_search_in_blocks_is_the_definition(mentions: list[tuple[int, int]]) -> None:
    words = []
    for value, gap in mentions:
        words += ["word"] * gap + [str(value)]
    text = " ".join(words)
    read = numbers(text)
    values = [int(value) for value in read.value_N]
    expected = has_relation_slowly(values, read.token_N.tolist(), 100)
    assert has_relation(read) == expected


def test_a_dense_table_is_searched_without_an_error() -> None:
    rng = np.random.default_rng(0)
    halves = rng.integers(10**8, 10**9, size=2000)
    # Odd and odd is even, and products and quotients are far out of range.
    assert not related(" ".join(str(2 * n + 1) for n in halves))
