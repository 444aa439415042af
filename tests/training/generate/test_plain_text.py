import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from training.generate.plain_text import PlainText

letters = st.sampled_from("ab \né🙂")
texts = st.text(letters, max_size=12)
stops = st.lists(st.text(letters, min_size=1, max_size=4), max_size=3)


def written(text: PlainText, pieces: list[bytes]) -> list[str]:
    return [*(text.add(piece) for piece in pieces), text.end()]


def before_first_stop(text: str, stop: list[str]) -> tuple[str, bool]:
    """The slow reference: look at the whole text again after each character."""
    for end in range(len(text) + 1):
        befores = [text[:end].partition(s)[0] for s in stop if s in text[:end]]
        if befores:
            return min(befores, key=len), True
    return text, False


@settings(deadline=None)
@given(texts, stops, st.data())
@example("aab", ["ab"], None)
@example("abab", ["abb", "ba"], None)
def test_stopping_equals_joining_and_then_cutting(
    text: str, stop: list[str], data: st.DataObject | None
) -> None:
    left, pieces = text.encode(), []
    while left:
        length = 1 if data is None else data.draw(st.integers(1, len(left)))
        pieces.append(left[:length])
        left = left[length:]
    plain = PlainText(stop)
    assert ("".join(written(plain, pieces)), plain.stopped) == before_first_stop(text, stop)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=3)))
def test_what_is_no_text_is_decoded_as_if_it_came_at_once(pieces: list[bytes]) -> None:
    assert "".join(written(PlainText(), pieces)) == b"".join(pieces).decode("utf-8", "replace")


@settings(deadline=None)
@given(texts, stops)
def test_nothing_is_held_back_that_no_stop_text_begins_with(text: str, stop: list[str]) -> None:
    plain, given_out = PlainText(stop), ""
    for character in text:
        given_out += plain.add(character.encode())
        if plain.stopped:
            return
        held = text[len(given_out) : len(plain)]
        assert not held or any(s.startswith(held) for s in stop)


def test_half_a_character_is_held_back() -> None:
    plain = PlainText()
    smile = "🙂".encode()
    assert [plain.add(smile[:2]), plain.add(smile[2:]), plain.end()] == ["", "🙂", ""]


def test_half_a_character_at_the_end_is_replaced() -> None:
    plain = PlainText()
    assert [plain.add("é".encode()[:1]), plain.end()] == ["", "\ufffd"]


@pytest.mark.parametrize(
    ("stop", "text", "shown"),
    [
        (["\n\n"], "a\nb\n\nc", "a\nb"),
        (["abcd", "c"], "abcd", "ab"),  # "c" is complete before "abcd" is
        (["bc", "abc"], "abc", ""),  # of two that end together the longer
        (["a"], "", ""),
    ],
)
def test_the_stop_text_that_is_complete_first_ends_the_text(
    stop: list[str], text: str, shown: str
) -> None:
    assert "".join(written(PlainText(stop), [text.encode()])) == shown


def test_its_length_counts_what_is_held_back() -> None:
    plain = PlainText(["bye"])
    assert (plain.add(b"so, b"), len(plain)) == ("so, ", 5)
    assert (plain.add(b"e"), len(plain)) == ("be", 6)
