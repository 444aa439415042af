"""PackedLM: the packed forward and its branches as the CausalLM that the torch engines ask.

Shape suffixes: R rows, D hidden size.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.causal_lm import Prefix
from pipeline.engines.head import LMHead
from pipeline.engines.packed.branches import PackedBranches
from pipeline.engines.packed.model import KeptTokens, Tokens, forward
from pipeline.engines.packed.texts import PackedTexts
from pipeline.engines.packed.weights import Weights


class PackedLM:
    """See pipeline.engines.causal_lm.CausalLM. Nothing is padded."""

    keeps = True

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.head = LMHead(weights.norm, weights.head, weights.head_bias)
        self.device = weights.embedding.device
        self.dtype = weights.embedding.dtype
        self.tokens_run = 0
        self.padding_run = 0

    def hidden_rows(
        self,
        sequences: Sequence[Tokens],
        rows: Sequence[NDArray[np.int64]],
        beginning: KeptTokens | None = None,
        *,
        keep: bool = False,
    ) -> tuple[Tensor, list[KeptTokens] | None]:
        """Hidden states [R, D] at the given places, and with `keep` what each sequence left."""
        lengths = [len(sequence) for sequence in sequences]
        starts = np.cumsum([0, *lengths[:-1]])
        h_TD, kept = forward(self._weights, sequences, beginning, keep=keep)
        self.tokens_run += sum(lengths)
        chosen_R = np.concatenate([start + r for start, r in zip(starts, rows, strict=True)])
        h_RD = h_TD[torch.from_numpy(chosen_R).to(self.device)]
        if kept is None:
            return h_RD, None
        return h_RD, [
            kept.part(int(start), length) for start, length in zip(starts, lengths, strict=True)
        ]

    def decoder(
        self, prefixes: Sequence[Prefix], roots: Sequence[tuple[int, int]]
    ) -> PackedBranches:
        """Branches from roots (prefix, number of its tokens)."""
        kept = [prefix.kept for prefix in prefixes if prefix.kept is not None]
        assert len(kept) == len(prefixes), "a packed model goes on from what it kept"
        return PackedBranches(self, self._weights, prefixes[0].beginning, kept, roots)

    def texts(self) -> PackedTexts:
        """A store of texts that grow, with none in it."""
        return PackedTexts(self, self._weights)
