"""Drawing a token from logits: ancestral sampling with random numbers fixed beforehand.

Shape suffixes: R rows, V vocabulary, M samples of a row, B blocks of C tokens.
"""

import hashlib

import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 256
_COLD = 0.01  # below it logits are divided by so little that they may overflow
_COLDEST = 1e-30  # float32 knows its inverse; all but the likeliest tokens have probability 0


def uniform(seed: int, step: int) -> float:
    """The random number in [0, 1) of token `step` of the sample with this 64-bit seed."""
    key = seed.to_bytes(8, "little") + step.to_bytes(8, "little")
    bits = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
    return (bits >> 11) * 2.0**-53


def draw(logits_RV: Tensor, uniforms_RM: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """M tokens for each row, int64 [R, M]: the inverse of the distribution function.

    Probabilities and sums of blocks of them are float32, longer sums float64. Temperature 0 is
    greedy. `top_p` keeps the most probable tokens up to the first that brings their sum to at
    least that much.
    """
    if temperature == 0.0:
        return logits_RV.argmax(dim=-1, keepdim=True).expand(uniforms_RM.shape)
    if temperature < _COLD:  # others give to the last bit what they always gave
        logits_RV = logits_RV - logits_RV.amax(dim=-1, keepdim=True)
        temperature = max(temperature, _COLDEST)
    if temperature != 1.0:
        logits_RV = logits_RV / temperature
    p_RV = torch.softmax(logits_RV, dim=-1)
    if top_p < 1.0:
        p_RV = _nucleus(p_RV, top_p)
    R, V = p_RV.shape
    p_RBC = functional.pad(p_RV, (0, -V % _BLOCK)).view(R, -1, _BLOCK)
    # First the block of tokens, then the token in it: most of the vocabulary is only summed up.
    cdf_RB = p_RBC.sum(dim=-1).cumsum(dim=-1, dtype=torch.float64)
    target_RM = _below(uniforms_RM * cdf_RB[:, -1:], cdf_RB[:, -1:])
    # right=True passes over what has probability 0, whose cdf equals that of the one before.
    block_RM = torch.searchsorted(cdf_RB, target_RM, right=True)
    before_RM = functional.pad(cdf_RB, (1, 0)).gather(1, block_RM)
    rows_R1 = torch.arange(R, device=p_RV.device)[:, None]
    cdf_RMC = p_RBC[rows_R1, block_RM].cumsum(dim=-1, dtype=torch.float64)
    target_RM1 = _below((target_RM - before_RM)[..., None], cdf_RMC[..., -1:])
    return block_RM * _BLOCK + torch.searchsorted(cdf_RMC, target_RM1, right=True)[..., 0]


def _below(target: Tensor, end: Tensor) -> Tensor:
    """`target`, where rounding brought it to the end of the distribution a little less."""
    return torch.minimum(target, end * (1 - 2.0**-53))


def _nucleus(p_RV: Tensor, top_p: float) -> Tensor:
    sorted_RV, order_RV = p_RV.sort(dim=-1, descending=True, stable=True)
    before_RV = sorted_RV.cumsum(dim=-1, dtype=torch.float64) - sorted_RV
    kept_RV = torch.where(before_RV < top_p, sorted_RV, 0.0)
    return torch.zeros_like(p_RV).scatter_(-1, order_RV, kept_RV)
