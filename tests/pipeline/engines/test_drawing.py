import numpy as np
import pytest
import torch

from pipeline.engines.drawing import draw, uniform

# Three rows of the distribution (0.5, 0, 0.3, 0.2), scaled by an arbitrary constant.
LOGITS = torch.log(torch.tensor([[0.5, 0.0, 0.3, 0.2]])).repeat(6, 1) + 7.0


def drawn(
    logits_RV: torch.Tensor, uniforms: list[float], *, temperature: float, top_p: float
) -> list[int]:
    """One token for each row."""
    uniforms_R1 = torch.tensor(uniforms, dtype=torch.float64)[:, None]
    tokens: list[int] = draw(logits_RV, uniforms_R1, temperature=temperature, top_p=top_p)[
        :, 0
    ].tolist()
    return tokens


def test_several_samples_of_a_row_share_its_distribution() -> None:
    uniforms_RM = torch.tensor([[0.499, 0.801, 0.501], [0.9, 0.0, 0.0]], dtype=torch.float64)
    tokens = draw(LOGITS[:2], uniforms_RM, temperature=1.0, top_p=1.0)
    assert tokens.tolist() == [[0, 3, 2], [3, 0, 0]]
    assert draw(LOGITS[:2], uniforms_RM, temperature=0.0, top_p=1.0).tolist() == [[0] * 3] * 2


def test_a_token_is_the_inverse_of_the_distribution_function() -> None:
    uniforms = [0.0, 0.499, 0.501, 0.799, 0.801, 1 - 2**-53]
    tokens = drawn(LOGITS, uniforms, temperature=1.0, top_p=1.0)
    assert tokens == [0, 0, 2, 2, 3, 3]


def test_top_p_keeps_the_tokens_that_bring_the_sum_to_p() -> None:
    # 0.5 + 0.3 reach 0.6; the two are renormalised to 0.625 and 0.375.
    uniforms = [0.0, 0.62, 0.63, 0.9, 0.99, 1 - 2**-53]
    tokens = drawn(LOGITS, uniforms, temperature=1.0, top_p=0.6)
    assert tokens == [0, 0, 2, 2, 2, 2]


def test_a_tiny_top_p_keeps_the_most_probable_token() -> None:
    assert drawn(LOGITS, [0.99] * 6, temperature=1.0, top_p=1e-9) == [0] * 6


def test_temperature_two_takes_the_square_root_of_odds() -> None:
    # sqrt(.5), sqrt(.3), sqrt(.2) = .7071, .5477, .4472, in sum 1.7020: borders .4154 and .7372
    uniforms = [0.0, 0.415, 0.416, 0.737, 0.738, 0.999]
    tokens = drawn(LOGITS, uniforms, temperature=2.0, top_p=1.0)
    assert tokens == [0, 0, 2, 2, 3, 3]


def test_temperature_zero_is_greedy() -> None:
    assert drawn(LOGITS[:2], [0.99, 0.0], temperature=0.0, top_p=1.0) == [0, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-12, 1e-30, 1e-40, 1e-300])
@pytest.mark.parametrize("top_p", [1.0, 0.5])
def test_the_likeliest_share_what_is_drawn_near_temperature_zero(
    temperature: float, top_p: float
) -> None:
    # Divided by the temperature all of them are infinite in float32.
    logits_RV = torch.tensor([[7e3, -torch.inf, 9e3, 9e3], [-9e3, -9e3, -7e3, -torch.inf]])
    tokens = drawn(logits_RV.repeat(2, 1), [0.49, 0.49, 0.51, 0.51], temperature=temperature,
                   top_p=top_p)  # fmt: skip
    assert tokens == [2, 2, 3 if top_p == 1.0 else 2, 2]


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.7])
def test_the_temperature_divides_the_logits_as_they_are(temperature: float) -> None:
    # At each border of the distribution: another rounding would draw other tokens.
    logits_V = torch.randn(40, generator=torch.Generator().manual_seed(0)) * 9
    p_V = torch.softmax(logits_V / temperature, dim=-1)
    cdf_V, end = p_V.cumsum(dim=-1, dtype=torch.float64), p_V.sum().double()
    numbers_V = (cdf_V / end).clamp(max=1 - 2**-53)
    targets_V = (numbers_V * end).clamp(max=float(cdf_V[-1]) * (1 - 2**-53))
    tokens = drawn(logits_V.repeat(40, 1), numbers_V.tolist(), temperature=temperature, top_p=1.0)
    assert tokens == torch.searchsorted(cdf_V, targets_V, right=True).tolist()


def test_an_impossible_token_is_never_drawn() -> None:
    logits = torch.full((1000, 50), -torch.inf)
    logits[:, 10:20] = 0.0
    uniforms = [uniform(seed, 0) for seed in range(1000)]
    tokens = drawn(logits, uniforms, temperature=1.0, top_p=1.0)
    assert set(tokens) == set(range(10, 20))


def test_random_numbers_are_fixed_by_seed_and_step() -> None:
    # Written down once: other numbers would change every sample of every run.
    assert uniform(0, 0) == 0.0564663990004608
    assert uniform(2**64 - 1, 3) == 0.2767587067703342


def test_random_numbers_are_uniform() -> None:
    numbers = np.array([uniform(seed, step) for seed in range(200) for step in range(50)])
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert counts.min() > 850 and counts.max() < 1150  # 1000 expected, 5 standard deviations
