"""The parts of a decoder-only transformer that the packed forward knows, and what they compute.

Shape suffixes: T tokens, D hidden size, H query heads, K key heads, E head size, P half of the
rotated part of a head.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """x W^T + b"""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """LayerNorm, or RMSNorm where `is_rms`."""

    weight: Tensor
    bias: Tensor | None
    eps: float
    is_rms: bool

    def __call__(self, x: Tensor) -> Tensor:
        if self.is_rms:
            normed = functional.rms_norm(x.float(), self.weight.shape, None, self.eps)
            return normed.to(x.dtype) * self.weight
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """down(act(up(x))), or down(act(gate(x)) * up(x)) where `up` is gate and up in one."""

    up: Linear
    down: Linear
    act: Callable[[Tensor], Tensor]
    gated: bool

    def __call__(self, x: Tensor) -> Tensor:
        if not self.gated:
            return self.down(self.act(self.up(x)))
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(self.act(gate) * up)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A block. Without `norm_mlp` the MLP reads what attention reads, beside it (GPT-J)."""

    norm: Norm
    qkv: Linear  # [(H + 2 K) * E, D]
    out: Linear
    norm_mlp: Norm | None
    mlp: Mlp

    def after_attention(self, x_TD: Tensor, normed_TD: Tensor, attended_TD: Tensor) -> Tensor:
        """The hidden states after the block, given what attention brought together."""
        if self.norm_mlp is None:
            return self.out(attended_TD).add_(self.mlp(normed_TD)).add_(x_TD)
        x_TD = self.out(attended_TD).add_(x_TD)
        return self.mlp(self.norm_mlp(x_TD)).add_(x_TD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A whole model. Rotary tables hold a row for each position; the first 2 P of E turn."""

    embedding: Tensor  # [V, D]
    places: Tensor | None  # learned positions [max_len, D]
    rotary: tuple[Tensor, Tensor] | None  # cos and sin, float32 [max_len, P]
    layers: list[Layer]
    norm: Norm
    head: Tensor  # [V, D]
    head_bias: Tensor | None
    num_heads: int  # H
    num_kv_heads: int  # K
    head_size: int  # E

    def embed(self, tokens_T: Tensor, places_T: Tensor) -> Tensor:
        """Hidden states before the first block [T, D]."""
        h_TD = functional.embedding(tokens_T, self.embedding)
        return h_TD if self.places is None else h_TD + self.places[places_T]

    def split(
        self, qkv_TX: Tensor, cos_sin: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [T, H, E], keys and values [T, K, E], the first two turned to their places."""
        H, K, E = self.num_heads, self.num_kv_heads, self.head_size
        heads_THE = qkv_TX.view(len(qkv_TX), H + 2 * K, E)
        if cos_sin is not None:
            turn_(heads_THE[:, : H + K], *cos_sin)
        return heads_THE[:, :H], heads_THE[:, H : H + K], heads_THE[:, H + K :]

    def turns(self, places_T: Tensor) -> tuple[Tensor, Tensor] | None:
        """cos and sin of the places, each [T, 1, P]; None for models with learned positions."""
        if self.rotary is None:
            return None
        cos, sin = self.rotary
        return cos[places_T][:, None], sin[places_T][:, None]


def turn_(heads_THE: Tensor, cos_T1P: Tensor, sin_T1P: Tensor) -> None:
    """Rotary position embedding in place, in float32: element p turns with element P + p."""
    P = cos_T1P.shape[-1]
    first, second = heads_THE[..., :P].float(), heads_THE[..., P : 2 * P].float()
    turned = first * cos_T1P - second * sin_T1P
    heads_THE[..., P : 2 * P] = second.mul(cos_T1P).addcmul_(first, sin_T1P)
    heads_THE[..., :P] = turned


def joined(*parts: torch.nn.Linear) -> Linear:
    """Linear maps of the same input as one."""
    biases = [part.bias for part in parts]
    bias = None if biases[0] is None else torch.cat([b.detach() for b in biases])
    return Linear(weight=torch.cat([part.weight.detach() for part in parts]), bias=bias)
