"""Drawing a token from logits: ancestral sampling with random numbers fixed beforehand.

Shape suffixes: R rows, V vocabulary.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


def uniform(seed: int, step: int) -> float:
    """The random number in [0, 1) of token `step` of the sample with this 64-bit seed."""
    key = seed.to_bytes(8, "little") + step.to_bytes(8, "little")
    bits = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    return (bits >> 11) * 2.0**-53


def draw(
    logits_RV: Tensor, uniforms: Sequence[float], *, temperature: float, top_p: float
) -> Tensor:
    """One token for each row, int64 [R]: the inverse of the distribution function, in float64.

    Temperature 0 is greedy. `top_p` keeps the most probable tokens up to the first that brings
    their sum to at least that much.
    """
    if temperature == 0.0:
        return logits_RV.argmax(dim=-1)
    p_RV = torch.softmax(logits_RV.double() / temperature, dim=-1)
    if top_p < 1.0:
        p_RV = _nucleus(p_RV, top_p)
    cdf_RV = p_RV.cumsum(dim=-1)
    u_R1 = torch.tensor(uniforms, dtype=torch.float64, device=logits_RV.device)[:, None]
    # right=True passes over tokens of probability 0, whose cdf equals that of the one before.
    tokens_R1 = torch.searchsorted(cdf_RV, u_R1 * cdf_RV[:, -1:], right=True)
    return tokens_R1.squeeze(1)


def _nucleus(p_RV: Tensor, top_p: float) -> Tensor:
    sorted_RV, order_RV = p_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(dim=-1) - sorted_RV
    kept_RV = torch.where(before_RV < top_p, sorted_RV, 0.0)
    return torch.zeros_like(p_RV).scatter_(-1, order_RV, kept_RV)
