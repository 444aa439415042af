from hypothesis import given
from hypothesis import strategies as st

from pipeline.engines.batching import form_batches


def test_batches_are_filled_longest_first() -> None:
    # 4 + 4 fit 8; then 3 + 2 (two rows of 3); the 9 goes alone although it is over the budget
    assert form_batches([4, 2, 9, 3, 4], 8) == [[2], [0, 4], [3, 1]]


def test_equal_lengths_keep_their_order() -> None:
    assert form_batches([2, 2, 2, 2], 6) == [[0, 1, 2], [3]]


def test_no_sequences_are_no_batches() -> None:
    assert form_batches([], 8) == []


@given(st.lists(st.integers(1, 50)), st.integers(1, 100))
def test_every_sequence_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = form_batches(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget
