import numpy as np
import pytest

from pipeline.positions import select_positions

P_API = np.array([0.01, 0.30, 0.05, 0.90, 0.051, 0.30])
ALL_LEGAL = np.ones(6, dtype=bool)


def test_only_positions_strictly_above_tau_s_are_kept() -> None:
    assert select_positions(P_API, ALL_LEGAL, tau_s=0.05, k=6).tolist() == [1, 3, 4, 5]


def test_of_more_than_k_positions_the_most_probable_stay_in_document_order() -> None:
    assert select_positions(P_API, ALL_LEGAL, tau_s=0.05, k=2).tolist() == [1, 3]


def test_of_equal_probabilities_the_earlier_position_wins() -> None:
    flat = np.full(5, 0.2)
    assert select_positions(flat, np.ones(5, dtype=bool), tau_s=0.0, k=3).tolist() == [0, 1, 2]


def test_positions_inside_a_character_are_no_candidates() -> None:
    legal = ALL_LEGAL.copy()
    legal[3] = False
    assert select_positions(P_API, legal, tau_s=0.0, k=2).tolist() == [1, 5]


def test_no_position_above_tau_s_gives_an_empty_choice() -> None:
    chosen = select_positions(P_API, ALL_LEGAL, tau_s=0.95, k=5)
    assert chosen.tolist() == []
    assert chosen.dtype == np.int32


@pytest.mark.parametrize("k", [1, 3, 6])
def test_tau_s_zero_keeps_the_top_k_of_everything(k: int) -> None:
    chosen = select_positions(P_API, ALL_LEGAL, tau_s=0.0, k=k)
    assert len(chosen) == k
    assert 3 in chosen
