"""The packed forward: hidden rows of many sequences, with the keys and values they leave.

Shape suffixes: T tokens on the one axis, R rows, D hidden size, K key heads, E head size,
L layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.packed.attention import PackedAttention, has_varlen_kernel
from pipeline.engines.packed.weights import Weights

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class KeptTokens:
    """Keys and values of some tokens in every layer: each [L, T, K, E]."""

    keys: Tensor
    values: Tensor

    def __len__(self) -> int:
        return int(self.keys.shape[1])

    def part(self, start: int, length: int) -> "KeptTokens":
        """Those of a sequence of a pack; a view."""
        return KeptTokens(
            self.keys[:, start : start + length], self.values[:, start : start + length]
        )


def forward(
    weights: Weights, sequences: Sequence[Tokens], beginning: KeptTokens | None, *, keep: bool
) -> tuple[Tensor, KeptTokens | None]:
    """Hidden states [T, D] of sequences that each go on after `beginning`.

    With `keep` also their keys and values. The last norm is not applied: rows are chosen first.
    """
    device = weights.embedding.device
    shared = 0 if beginning is None else len(beginning)
    lengths = [len(sequence) for sequence in sequences]
    one_kernel = has_varlen_kernel(device, weights.embedding.dtype, weights.head_size)
    attend = PackedAttention(lengths, shared, device, one_kernel=one_kernel)
    places = np.concatenate([shared + np.arange(length) for length in lengths])
    places_T = torch.from_numpy(places).to(device)
    tokens_T = torch.from_numpy(np.concatenate(sequences).astype(np.int64)).to(device)
    cos_sin = weights.turns(places_T)
    x_TD = weights.embed(tokens_T, places_T)
    kept = _room(weights, len(places)) if keep else None
    for index, layer in enumerate(weights.layers):
        normed_TD = layer.norm(x_TD)
        q_THE, k_TKE, v_TKE = weights.split(layer.qkv(normed_TD), cos_sin)
        if kept is not None:
            kept.keys[index], kept.values[index] = k_TKE, v_TKE
        shared_kv = None if beginning is None else (beginning.keys[index], beginning.values[index])
        attended_TD = attend(q_THE, k_TKE, v_TKE, shared_kv)
        x_TD = layer.after_attention(x_TD, normed_TD, attended_TD)
    return x_TD, kept


def _room(weights: Weights, tokens: int) -> KeptTokens:
    shape = (len(weights.layers), tokens, weights.num_kv_heads, weights.head_size)
    empty = weights.embedding.new_empty(shape)
    return KeptTokens(empty, torch.empty_like(empty))
