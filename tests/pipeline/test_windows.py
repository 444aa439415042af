"""Where a position of a paragraph is in its document, counted by hand and on any text."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pipeline.documents.foreign_text import paragraph_spans
from pipeline.tokens import NotLossless, TokenCodec
from pipeline.windows import Window, windows_of
from tests.pipeline.letters import letter_codec, text_of
from tests.pipeline.tiny_checkpoints import byte_level_tokenizer, llama2_tokenizer

LETTERS = letter_codec()  # one byte is one token
WORDS = TokenCodec(byte_level_tokenizer(), bos_id=0, eos_id=0)  # " the", " Calculator", ...
LLAMA2 = TokenCodec(llama2_tokenizer(), bos_id=1, eos_id=2)


def merging_codec(merges: list[tuple[str, str]]) -> TokenCodec:
    """Every byte is a token, " [" is one, and what `merges` make of them (a space is U+0120)."""
    merges = [("\u0120", "["), *merges]
    symbols = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return TokenCodec(tokenizer, bos_id=None, eos_id=None, name="merges")


def row(text: str, codec: TokenCodec, verdict: str = "offered") -> dict[str, Any]:
    """A document of which every paragraph is offered."""
    spans = [
        (len(text[:begin].encode()), len(text[:end].encode()))
        for begin, end in paragraph_spans(text)
    ]
    return {
        "text": text,
        "input_ids": codec.canonical(text).tolist(),
        "paragraphs": [{"byte_start": b, "byte_end": e, "verdict": verdict} for b, e in spans],
    }


def windows(text: str, codec: TokenCodec = LETTERS) -> list[Window]:
    return windows_of(row(text, codec), "MT", codec)


def test_other_tools_read_the_whole_document() -> None:
    [window] = windows_of(row(" ab\ncd ", LETTERS), "Calculator", LETTERS)
    assert (window.text, window.span) == ("ab\ncd", (0, 7))
    assert text_of(LETTERS, window.x_ids) == " ab\ncd"
    assert window.place_n.tolist() == [0, 1, 2, 3, 4, 5]


def test_only_offered_paragraphs_are_read() -> None:
    assert windows_of(row("ab\ncd", LETTERS, "too_short"), "MT", LETTERS) == []


def test_places_are_counted_in_bytes_of_the_document() -> None:
    # The document is " é1\n  b東c\nd" as 13 one-byte tokens:
    #   0 space, 1-2 é, 3 "1", 4 newline, 5-6 spaces, 7 b, 8-10 東, 11 c, 12 newline, 13 d
    first, second, third = windows("\n\u00e91\n  b\u6771c\nd\n")
    # " é1": before the space, before é, not inside é, before "1".
    assert first.place_n.tolist() == [0, 1, -1, 3]
    # " b東c": its space is the one at 6, though the line begins with two.
    assert second.text == "b\u6771c"
    assert second.place_n.tolist() == [6, 7, 8, -1, -1, 11]
    # " d": there is no space before the d of the document, so before " " and before "d" are one.
    assert third.place_n.tolist() == [13, -1]
    # In bytes of the text, which begins with a newline: lines without theirs.
    assert [w.span for w in (first, second, third)] == [(1, 4), (5, 12), (13, 14)]


def test_a_place_inside_a_token_of_the_document_is_not_legal() -> None:
    # Space and "a" merge before "a" and "b" do, so "ab" is one token only after a newline.
    codec = merging_codec([("\u0120", "a"), ("a", "b")])
    assert codec.token_bytes(codec.canonical("x\nabc")) == [b" ", b"x", b"\n", b"ab", b"c"]
    window = windows("x\nabc", codec)[1]
    assert codec.token_bytes(window.x_ids) == [b" a", b"b", b"c"]
    assert window.place_n.tolist() == [3, -1, 4]
    # And the other way round: what is one token of the window may be several of the document.
    codec = merging_codec([("\u0120", "a"), ("\u0120a", "b")])
    assert codec.token_bytes(windows("x\nabc", codec)[1].x_ids) == [b" ab", b"c"]
    assert windows("x\nabc", codec)[1].place_n.tolist() == [3, 5]


@pytest.mark.parametrize("codec", [LETTERS, WORDS, LLAMA2], ids=["letters", "words", "llama2"])
@pytest.mark.parametrize("text", ["Out of 1400", "\n Out \u00e9 \u6771 of\t\n \n"])
def test_a_document_of_one_paragraph_is_its_window(codec: TokenCodec, text: str) -> None:
    [window] = windows(text, codec)
    [document] = windows_of(row(text, codec), "Calculator", codec)
    assert window.span == document.span and window.text == document.text
    assert window.x_ids.tolist() == document.x_ids.tolist()
    assert window.place_n.tolist() == document.place_n.tolist()


texts = st.text(st.sampled_from('ab [("\u00e9\u6771\U0001f642\u0301\n\n\t\r\u00a0')) | st.text()


@given(texts, st.sampled_from([LETTERS, WORDS, LLAMA2]))
def test_what_follows_a_place_is_the_same_in_the_window_and_in_the_document(
    text: str, codec: TokenCodec
) -> None:
    try:
        document = codec.canonical(text)
    except NotLossless:
        return
    if not text.strip():
        return
    offsets = codec.insertion_offsets(text, document)
    taken: set[int] = set()
    for window in windows(text, codec):
        begins = codec.byte_offsets(window.x_ids)
        body = (" " + window.text).encode()
        assert window.place_n[0] >= 0  # before the paragraph there is always a place
        for position, place in enumerate(window.place_n.tolist()):
            if place < 0:
                continue
            assert place not in taken  # no two calls fall together
            taken.add(place)
            assert window.position_of(place) == position
            offset = int(offsets[place])
            assert window.span[0] <= offset < window.span[1]
            rest = text.encode()[offset : window.span[1]].strip()
            assert rest.startswith(body[begins[position] :].strip())
