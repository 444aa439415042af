import numpy as np
import pytest

from pipeline.losses import WEIGHTS_W, gain, weighted_loss


def test_weights_are_the_papers_and_sum_to_one() -> None:
    assert np.allclose(WEIGHTS_W, np.array([1.0, 0.8, 0.6, 0.4, 0.2]) / 3)
    assert WEIGHTS_W.sum() == pytest.approx(1.0)


def test_loss_of_one_nat_at_every_token_is_one_nat() -> None:
    assert weighted_loss(np.full((1, 5), -1.0, dtype=np.float32)).tolist() == pytest.approx([1.0])


def test_earlier_tokens_weigh_more() -> None:
    # -(1.0 * -3 + 0.4 * -6) / 3 = (3 + 2.4) / 3
    logprobs = np.array([[-3.0, 0.0, 0.0, -6.0, 0.0]], dtype=np.float32)
    assert weighted_loss(logprobs)[0] == pytest.approx(1.8)


def test_weights_are_not_renormalised_at_the_end_of_a_document() -> None:
    # Two tokens left: -(1.0 * -1 + 0.8 * -1) / 3
    logprobs = np.array([[-1.0, -1.0, np.nan, np.nan, np.nan]], dtype=np.float32)
    assert weighted_loss(logprobs)[0] == pytest.approx(0.6)


def test_loss_is_in_float64() -> None:
    assert weighted_loss(np.zeros((2, 5), dtype=np.float32)).dtype == np.float64


def test_gain_is_against_the_better_of_no_call_and_call_without_result() -> None:
    assert gain(loss_empty=2.5, loss_call=2.0, loss_plus=0.75) == 1.25
    assert gain(loss_empty=1.5, loss_call=2.0, loss_plus=0.75) == 0.75


def test_gain_is_negative_when_the_result_misleads() -> None:
    assert gain(loss_empty=0.5, loss_call=0.6, loss_plus=1.0) == -0.5
