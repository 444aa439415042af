"""PlainLM: any Hugging Face causal language model, through its own forward.

For architectures the packed forward does not know: padded batches, and for samples a cache that
holds the whole prefix of each branch.

Shape suffixes: B sequences, T tokens (right-padded), N branches, R rows, D hidden size.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from pipeline.engines.causal_lm import Prefix
from pipeline.engines.head import LMHead
from pipeline.engines.packed.model import KeptTokens, Tokens
from pipeline.engines.plain_texts import PlainTexts


class PlainLM:
    """See pipeline.engines.causal_lm.CausalLM."""

    keeps = False

    def __init__(self, model: PreTrainedModel) -> None:
        self.body = model.base_model
        self.device, self.dtype = model.device, model.dtype
        head: torch.nn.Linear = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        bias = None if head.bias is None else head.bias.detach()
        self.head = LMHead(lambda h_RD: h_RD, head.weight.detach(), bias)
        self.tokens_run = 0
        self.padding_run = 0

    def hidden_rows(
        self,
        sequences: Sequence[Tokens],
        rows: Sequence[NDArray[np.int64]],
        beginning: KeptTokens | None = None,
        *,
        keep: bool = False,
    ) -> tuple[Tensor, None]:
        """Hidden states [R, D] at the given places of each sequence."""
        assert beginning is None and not keep, "a plain model keeps nothing"
        h_BTD: Tensor = self.body(input_ids=self._padded(sequences), use_cache=False)[0]
        batch = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        # Causal attention never looks at the padding on the right, so no mask is needed.
        return h_BTD[self._on_device(batch), self._on_device(np.concatenate(rows))], None

    def decoder(
        self, prefixes: Sequence[Prefix], roots: Sequence[tuple[int, int]]
    ) -> "PlainBranches":
        """Branches from roots (prefix, number of its tokens)."""
        texts = [prefixes[prefix].tokens[:length] for prefix, length in roots]
        cache = DynamicCache()
        self.body(input_ids=self._padded(texts), past_key_values=cache, use_cache=True)
        return PlainBranches(self, cache, [len(text) for text in texts])

    def texts(self) -> PlainTexts:
        """A store of texts that grow, with none in it."""
        return PlainTexts(self)

    def _padded(self, sequences: Sequence[Tokens]) -> Tensor:
        tokens_BT = np.zeros((len(sequences), max(map(len, sequences))), dtype=np.int64)
        for row, sequence in zip(tokens_BT, sequences, strict=True):
            row[: len(sequence)] = sequence
        self.tokens_run += tokens_BT.size
        self.padding_run += tokens_BT.size - sum(map(len, sequences))
        return self._on_device(tokens_BT)

    def _on_device(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


class PlainBranches:
    """See pipeline.engines.causal_lm.Decoder."""

    def __init__(self, lm: PlainLM, cache: DynamicCache, lengths: Sequence[int]) -> None:
        self._lm, self._cache = lm, cache
        self._places_N = torch.tensor(lengths, device=lm.device)
        columns = torch.arange(max(lengths), device=lm.device)
        self._visible_NC = (columns < self._places_N[:, None]).long()

    def step(self, tokens_N: NDArray[np.int64], parents_N: NDArray[np.int64]) -> Tensor:
        """The hidden states [N, D] of N branches of one more token."""
        lm, parents = self._lm, torch.from_numpy(parents_N).to(self._lm.device)
        self._cache.batch_select_indices(parents)
        self._places_N = self._places_N[parents]
        visible_NC = self._visible_NC[parents]
        self._visible_NC = torch.cat([visible_NC, torch.ones_like(visible_NC[:, :1])], dim=1)
        h_N1D: Tensor = lm.body(
            input_ids=torch.from_numpy(tokens_N).to(lm.device)[:, None],
            position_ids=self._places_N[:, None],
            attention_mask=self._visible_NC,
            past_key_values=self._cache,
            use_cache=True,
        )[0]
        self._places_N = self._places_N + 1
        lm.tokens_run += len(tokens_N)
        return h_N1D[:, 0]
