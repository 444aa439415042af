import numpy as np
import pytest
import torch

from pipeline.engines.head import LMHead
from tools.base import ConfigError

# Two hidden channels, three tokens: logits of (1, 2) are 1, 2 + 0.5, 3.
HEAD = LMHead(
    lambda h_RD: h_RD,
    torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    torch.tensor([0.0, 0.5, 0.0]),
)
ROWS = torch.tensor([[1.0, 2.0], [0.0, 0.0]])


def test_logprobs_are_logits_less_their_log_sum_exp() -> None:
    sum_first = np.log(np.exp(1) + np.exp(2.5) + np.exp(3))
    sum_second = np.log(2 + np.exp(0.5))
    np.testing.assert_allclose(
        HEAD.logprobs(ROWS, np.array([[0, 2], [1, 1]])),
        [[1 - sum_first, 3 - sum_first], [0.5 - sum_second, 0.5 - sum_second]],
        rtol=1e-6,
    )


def test_many_rows_are_answered_as_each_alone() -> None:
    rows_RD = torch.randn(2500, 2, generator=torch.Generator().manual_seed(0))
    ids_RA = np.arange(2500)[:, None] % 3
    before = HEAD.rows_run
    together = HEAD.logprobs(rows_RD, ids_RA)
    assert HEAD.rows_run - before == 2500
    for row in (0, 7, 1023, 1024, 2499):
        alone = HEAD.logprobs(rows_RD[row : row + 1], ids_RA[row : row + 1])
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_stop_the_run_and_pass_for_nothing(value: float) -> None:
    # In a window of losses NaN stands for the end of the text, which costs nothing.
    rows_RD = torch.tensor([[1.0, 2.0], [value, 0.0]])
    with pytest.raises(ConfigError, match=r"not finite in float32.*model\.dtype"):
        HEAD.logprobs(rows_RD, np.array([[0], [0]]))
    with pytest.raises(ConfigError, match="not finite in float32"):
        HEAD.numbers(rows_RD)
