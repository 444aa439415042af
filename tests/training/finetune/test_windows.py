from hypothesis import given
from hypothesis import strategies as st

from training.finetune.windows import Span, Window, too_long, windows


def cut(num_tokens: int, calls: list[Span], limit: int) -> list[tuple[int, int, int]]:
    return [(w.start, w.end, w.trained_from) for w in windows(num_tokens, calls, limit)]


def test_a_document_that_fits_is_one_window() -> None:
    assert cut(20, [(3, 6), (17, 19)], limit=20) == [(0, 20, 0)]


def test_a_quarter_of_a_window_is_text_before_its_first_call() -> None:
    assert cut(100, [(40, 46)], limit=20) == [(35, 55, 35)]
    assert cut(100, [(2, 6)], limit=20) == [(0, 20, 0)]
    assert cut(100, [(0, 6)], limit=20) == [(0, 20, 0)]


def test_a_window_at_the_end_of_a_document_takes_more_text_before_its_call() -> None:
    assert cut(50, [(45, 48)], limit=20) == [(30, 50, 30)]


def test_a_window_at_the_end_takes_no_text_again_beyond_its_quarter() -> None:
    # The first goes to token 25, the other could begin at 20 and begins at 23, 5 before its call.
    assert cut(40, [(10, 14), (28, 34)], limit=20) == [(5, 25, 5), (23, 40, 25)]


def test_calls_far_apart_have_a_window_each_and_the_text_between_is_in_none() -> None:
    assert cut(100, [(10, 14), (60, 64)], limit=20) == [(5, 25, 5), (55, 75, 55)]


def test_a_large_call_has_less_text_before_it() -> None:
    # 17 tokens and the one after them leave room for 2 before.
    assert cut(100, [(40, 57)], limit=20) == [(38, 58, 38)]


def test_a_window_ends_before_a_call_it_has_no_room_for() -> None:
    assert cut(100, [(10, 14), (22, 28)], limit=20) == [(5, 22, 5), (17, 37, 22)]


def test_a_window_ends_before_a_call_whose_next_token_it_has_no_room_for() -> None:
    # The call ends with token 24, where the window would, and stands before token 25.
    assert cut(100, [(10, 14), (20, 25)], limit=20) == [(5, 20, 5), (15, 35, 20)]
    assert cut(100, [(10, 14), (20, 24)], limit=20) == [(5, 25, 5)]


def test_a_window_does_not_begin_within_an_earlier_call() -> None:
    assert cut(100, [(10, 14), (15, 30)], limit=20) == [(5, 15, 5), (15, 35, 15)]


def test_calls_at_one_place_stand_in_one_window() -> None:
    assert cut(100, [(30, 36), (36, 40), (70, 74)], limit=14) == [(27, 41, 27), (67, 81, 67)]
    # The first two are one block of 11 tokens, then comes one alone.
    assert cut(100, [(30, 36), (36, 40), (42, 46)], limit=12) == [(29, 41, 29), (41, 53, 41)]


def test_a_call_has_to_fit_with_the_token_after_it() -> None:
    assert too_long([(5, 24)], limit=20) == []
    assert too_long([(5, 25)], limit=20) == [0]


def test_of_too_many_calls_at_one_place_the_longest_goes() -> None:
    assert too_long([(1, 3), (5, 15), (15, 26)], limit=20) == [2]
    assert too_long([(5, 15), (15, 25)], limit=20) == [1]
    assert too_long([(5, 15), (15, 24)], limit=20) == []
    assert too_long([(5, 35), (35, 60)], limit=20) == [0, 1]


@st.composite
def documents(draw: st.DrawFn) -> tuple[int, list[Span], int]:
    """The length of a document, its calls, and the length of a window."""
    places = draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.lists(st.integers(3, 25), min_size=1, max_size=3)),
            max_size=6,
        )
    )
    calls, end = [], 0
    for text, lengths in places:
        end += text
        for length in lengths:
            calls.append((end, end + length))
            end += length
        end += 1
    return end + draw(st.integers(0, 60)), calls, draw(st.integers(7, 60))


def split(document: tuple[int, list[Span], int]) -> tuple[list[Span], list[Window], int]:
    """The calls that fit, where they stand without the others, and the windows."""
    num_tokens, calls, limit = document
    gone = too_long(calls, limit)
    fitting, shift = [], 0
    for j, (start, end) in enumerate(calls):
        if j in gone:
            shift += end - start
        else:
            fitting.append((start - shift, end - shift))
    return fitting, windows(num_tokens - shift, fitting, limit), num_tokens - shift


@given(documents())
def test_every_call_is_learned_once_and_whole_with_the_token_after_it(
    document: tuple[int, list[Span], int],
) -> None:
    calls, found, num_tokens = split(document)
    for start, end in calls:
        learned = [w for w in found if w.trained_from < end + 1 and w.end > start]
        assert len(learned) == 1
        assert learned[0].trained_from <= start and end + 1 <= learned[0].end
        for window in found:
            whole = window.start <= start and end + 1 <= window.end
            assert whole or window.end <= start or end + 1 <= window.start
    for window in found:
        assert 0 <= window.start <= window.trained_from < window.end <= num_tokens
        assert window.end - window.start <= document[2]


@given(documents())
def test_no_token_is_learned_twice_and_each_window_learns_some_of_the_text(
    document: tuple[int, list[Span], int],
) -> None:
    calls, found, num_tokens = split(document)
    learned = [token for w in found for token in range(w.trained_from, w.end)]
    assert learned == sorted(set(learned))
    of_calls = {token for start, end in calls for token in range(start, end)}
    for window in found:
        assert set(range(window.trained_from, window.end)) - of_calls
    if calls and num_tokens <= document[2]:
        assert len(learned) == num_tokens


@given(documents())
def test_a_call_goes_only_where_there_is_no_room_for_it(
    document: tuple[int, list[Span], int],
) -> None:
    _, calls, limit = document
    gone = too_long(calls, limit)
    for j in gone:
        # With the calls that stay at its place it would not fit.
        first = last = j
        while first and calls[first - 1][1] == calls[first][0]:
            first -= 1
        while last + 1 < len(calls) and calls[last][1] == calls[last + 1][0]:
            last += 1
        stay = [k for k in range(first, last + 1) if k not in gone or k == j]
        assert sum(calls[k][1] - calls[k][0] for k in stay) + 1 > limit
        assert all(calls[k][1] - calls[k][0] <= calls[j][1] - calls[j][0] for k in stay)
