import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.batching import form_packs


def test_packs_are_filled_longest_first() -> None:
    # the 9 goes alone although it is over the budget; 4 + 4 fit 8; then 3 + 2 + 1
    assert form_packs([4, 2, 9, 3, 4, 1], 8) == [[2], [0, 4], [3, 1, 5]]


def test_padded_sequences_count_as_long_as_the_longest() -> None:
    # two rows of 4 fit 8; two rows of 3 do, three would be 9
    assert form_packs([4, 2, 9, 3, 4, 1], 8, padded=True) == [[2], [0, 4], [3, 1], [5]]


@pytest.mark.parametrize("padded", [False, True])
def test_equal_lengths_keep_their_order(padded: bool) -> None:
    assert form_packs([2, 2, 2, 2], 6, padded=padded) == [[0, 1, 2], [3]]


def test_no_sequences_are_no_packs() -> None:
    assert form_packs([], 8) == []


@given(st.lists(st.integers(1, 50)), st.integers(1, 100), st.booleans())
def test_every_sequence_is_in_one_pack_within_the_budget(
    lengths: list[int], budget: int, padded: bool
) -> None:
    packs = form_packs(lengths, budget, padded=padded)
    assert sorted(index for pack in packs for index in pack) == list(range(len(lengths)))
    for pack in packs:
        longest = max(lengths[i] for i in pack)
        tokens = len(pack) * longest if padded else sum(lengths[i] for i in pack)
        assert len(pack) == 1 or tokens <= budget
