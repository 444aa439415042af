"""Drawing a token from logits: ancestral sampling with random numbers fixed beforehand.

Shape suffixes: R rows, V vocabulary, M samples of a row.
"""

import hashlib

import torch
from torch import Tensor


def uniform(seed: int, step: int) -> float:
    """The random number in [0, 1) of token `step` of the sample with this 64-bit seed."""
    key = seed.to_bytes(8, "little") + step.to_bytes(8, "little")
    bits = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    return (bits >> 11) * 2.0**-53


def draw(logits_RV: Tensor, uniforms_RM: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """M tokens for each row, int64 [R, M]: the inverse of the distribution function, in float64.

    Temperature 0 is greedy. `top_p` keeps the most probable tokens up to the first that brings
    their sum to at least that much.
    """
    if temperature == 0.0:
        return logits_RV.argmax(dim=-1, keepdim=True).expand(uniforms_RM.shape)
    p_RV = torch.softmax(logits_RV.double() / temperature, dim=-1)
    if top_p < 1.0:
        p_RV = _nucleus(p_RV, top_p)
    cdf_RV = p_RV.cumsum(dim=-1)
    # right=True passes over tokens of probability 0, whose cdf equals that of the one before.
    return torch.searchsorted(cdf_RV, uniforms_RM * cdf_RV[:, -1:], right=True)


def _nucleus(p_RV: Tensor, top_p: float) -> Tensor:
    sorted_RV, order_RV = p_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(dim=-1) - sorted_RV
    kept_RV = torch.where(before_RV < top_p, sorted_RV, 0.0)
    return torch.zeros_like(p_RV).scatter_(-1, order_RV, kept_RV)
