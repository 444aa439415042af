"""Where sentences end, and texts cut there."""

import pytest

from tools.wikisearch.sentences import cut_at_sentence_end, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One ends. Two ends? Three ends! Four", ["One ends.", "Two ends?", "Three ends!", "Four"]),
        ("Dr. Smith met J. R. Brown. They spoke.", ["Dr. Smith met J. R. Brown.", "They spoke."]),
        ("It is in the U.S. Route 2 ends there.", ["It is in the U.S. Route 2 ends there."]),
        ('He said "Go." Then he left.', ['He said "Go."', "Then he left."]),
        ("It rose (by 2.5 m). 1984 was dry.", ["It rose (by 2.5 m).", "1984 was dry."]),
        ("Rock vs. pop, e.g. here, is no end.", ["Rock vs. pop, e.g. here, is no end."]),
        ("See Washington, D.C.. Built then.", ["See Washington, D.C..", "Built then."]),
        ("", []),
        (" . ", ["."]),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_a_text_that_fits_is_not_cut() -> None:
    assert cut_at_sentence_end("One two. Three four.", 4) == "One two. Three four."


def test_a_long_text_is_cut_after_its_last_whole_sentence() -> None:
    assert cut_at_sentence_end("One two. Three four. Five six.", 5) == "One two. Three four."


def test_a_first_sentence_that_is_too_long_is_cut_between_words() -> None:
    assert cut_at_sentence_end("One two three four. Five.", 3) == "One two three"
