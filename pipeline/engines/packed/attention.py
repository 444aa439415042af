"""Causal attention of many sequences that lie one after the other on one token axis.

Each sequence may continue a beginning that all of them share (a tool's examples), whose keys and
values were computed before.

Shape suffixes: T tokens of all sequences, C keys (beginnings included), H query heads, K key
heads, E head size.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn


def has_varlen_kernel(device: torch.device, dtype: torch.dtype, head_size: int) -> bool:
    """Whether FlashAttention, which takes sequences of many lengths at once, serves this model.

    It wants an NVIDIA GPU from Ampere on, half precision, and heads of at most 256 in steps of 8.
    """
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and dtype in (torch.float16, torch.bfloat16)
        and head_size <= 256
        and head_size % 8 == 0
    )


class PackedAttention:
    """Who sees whom in one pack: sequences of the given lengths after `shared` common tokens."""

    def __init__(
        self, lengths: Sequence[int], shared: int, device: torch.device, *, one_kernel: bool
    ) -> None:
        """`one_kernel`: all sequences in one call, see `has_varlen_kernel`."""
        self._lengths, self._shared = list(lengths), shared
        self._one_kernel = one_kernel
        if self._one_kernel:
            ends_q = torch.tensor([0, *lengths]).cumsum(0)
            ends_k = torch.tensor([0, *(shared + length for length in lengths)]).cumsum(0)
            self._ends_q = ends_q.to(device, torch.int32)
            self._ends_k = ends_k.to(device, torch.int32)
            self._gather_C = self._keys_of_all(device) if shared else None
        else:
            # The longest first serves all: rows of a shorter sequence see the same columns.
            columns = torch.arange(shared + max(lengths), device=device)
            self._mask = columns <= columns[shared:, None] if shared else None

    def __call__(
        self,
        q_THE: Tensor,
        k_TKE: Tensor,
        v_TKE: Tensor,
        shared_kv: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """What each token gathers, [T, H * E]."""
        if self._one_kernel:
            return self._varlen(q_THE, k_TKE, v_TKE, shared_kv)
        out_THE = torch.empty_like(q_THE, memory_format=torch.contiguous_format)
        start = 0
        for length in self._lengths:
            part = slice(start, start + length)
            k, v = k_TKE[part], v_TKE[part]
            if shared_kv is not None:
                k, v = torch.cat([shared_kv[0], k]), torch.cat([shared_kv[1], v])
            mask = None if self._mask is None else self._mask[:length, : self._shared + length]
            out_THE[part] = functional.scaled_dot_product_attention(
                q_THE[part].transpose(0, 1)[None],
                k.transpose(0, 1)[None],
                v.transpose(0, 1)[None],
                attn_mask=mask,
                is_causal=mask is None,
                enable_gqa=q_THE.shape[1] != k.shape[1],
            )[0].transpose(0, 1)
            start += length
        return out_THE.view(len(q_THE), -1)

    def _varlen(
        self,
        q_THE: Tensor,
        k_TKE: Tensor,
        v_TKE: Tensor,
        shared_kv: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        if shared_kv is not None:
            k_TKE = torch.cat([shared_kv[0], k_TKE])[self._gather_C]
            v_TKE = torch.cat([shared_kv[1], v_TKE])[self._gather_C]
        longest = max(self._lengths)
        # A window of (-1, 0) is causal and aligned to the last key, as the shared keys want it.
        out_THE = varlen_attn(
            q_THE.contiguous(), k_TKE.contiguous(), v_TKE.contiguous(),
            self._ends_q, self._ends_k, longest, self._shared + longest,
            window_size=(-1, 0), enable_gqa=q_THE.shape[1] != k_TKE.shape[1], num_splits=1,
        )  # fmt: skip
        assert isinstance(out_THE, Tensor)
        return out_THE.reshape(len(q_THE), -1)

    def _keys_of_all(self, device: torch.device) -> Tensor:
        """Rows of [shared, own keys of all] in the order of the sequences."""
        pieces, start = [], self._shared
        for length in self._lengths:
            pieces += [torch.arange(self._shared), torch.arange(start, start + length)]
            start += length
        return torch.cat(pieces).to(device)
