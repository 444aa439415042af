"""Cutting a page into passages of whole sentences, at most 60 words, within one section."""

from tools.wikisearch.kilt import Page, Paragraph
from tools.wikisearch.passages import Passage, cut_page


def sentence(num_words: int, word: str) -> str:
    """A sentence of `num_words` words, all of them `word`, the first with a capital."""
    return " ".join([word.capitalize()] + [word] * (num_words - 1)) + "."


def page(*paragraphs: tuple[str, str]) -> Page:
    """Each paragraph is (heading or "", text)."""
    return Page(
        title="T",
        paragraphs=tuple(
            Paragraph(section=(heading,) if heading else (), text=text)
            for heading, text in paragraphs
        ),
    )


def texts(cut: tuple[list[Passage], int]) -> list[str]:
    return [passage.text for passage in cut[0]]


def test_paragraphs_that_fit_together_share_a_passage() -> None:
    cut = cut_page(page(("", sentence(30, "a")), ("", sentence(30, "b"))))
    assert texts(cut) == [f"{sentence(30, 'a')} {sentence(30, 'b')}"]


def test_a_paragraph_that_would_not_fit_starts_a_passage() -> None:
    second = f"{sentence(20, 'b')} {sentence(11, 'c')}"
    cut = cut_page(page(("", sentence(30, "a")), ("", second)))
    assert texts(cut) == [sentence(30, "a"), second]


def test_sentences_of_a_long_paragraph_are_packed_and_the_rest_stays_open() -> None:
    long = f"{sentence(30, 'a')} {sentence(30, 'b')} {sentence(10, 'c')}"
    cut = cut_page(page(("", long), ("", sentence(50, "d"))))
    assert texts(cut) == [
        f"{sentence(30, 'a')} {sentence(30, 'b')}",
        f"{sentence(10, 'c')} {sentence(50, 'd')}",
    ]


def test_no_passage_crosses_a_section() -> None:
    cut = cut_page(page(("", sentence(10, "a")), ("H", sentence(10, "b")), ("", sentence(10, "c"))))
    assert [(p.section, p.text) for p in cut[0]] == [
        ((), sentence(10, "a")),
        (("H",), sentence(10, "b")),
        ((), sentence(10, "c")),
    ]


def test_a_sentence_over_60_words_is_cut_into_equal_pieces() -> None:
    cut = cut_page(page(("", sentence(121, "a"))))
    assert [len(text.split()) for text in texts(cut)] == [41, 41, 39]
    assert " ".join(texts(cut)) == sentence(121, "a")


def test_snippets_under_5_words_are_left_out_and_counted() -> None:
    cut = cut_page(page(("", sentence(4, "a")), ("H", sentence(5, "b")), ("I", sentence(1, "c"))))
    assert texts(cut) == [sentence(5, "b")]
    assert cut[1] == 2


def test_no_word_of_a_page_is_lost_or_repeated() -> None:
    sizes = [3, 59, 60, 61, 7, 1, 140, 12, 48, 2]
    words = [f"{sentence(size, chr(ord('a') + i))}" for i, size in enumerate(sizes)]
    passages, num_short = cut_page(page(*(("", text) for text in words)))
    assert num_short == 1
    # The 3-word paragraph stands alone: the 59 words after it do not fit behind it.
    assert " ".join(p.text for p in passages) == " ".join(words[1:])
    assert all(len(p.text.split()) <= 60 for p in passages)


def test_a_result_names_title_and_sections_before_the_text() -> None:
    passage = Passage(
        title="Battle of Flodden", section=("Commemoration", "Window"), text="The window is old."
    )
    assert passage.result() == "Battle of Flodden > Commemoration > Window > The window is old."
    assert Passage(title="Fast Train", section=(), text="It peaked.").result() == (
        "Fast Train > It peaked."
    )
