"""A Hugging Face causal language model as body and head: hidden rows in, float32 logits out.

The head is applied to the rows that are needed and to no others; [T, V] is never built.

Shape suffixes: B sequences, T tokens (right-padded), R rows, D hidden size, V vocabulary,
A token ids of interest, C columns: the keys a query may see.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from pipeline.engines.checkpoint import context_length
from pipeline.engines.kv_cache import KVCache
from tools.base import ConfigError

_ROWS_AT_ONCE = 1024  # of logits: 1024 * 50,400 * 4 bytes = 206 MB for GPT-J


class CausalLM:
    """Forward passes of a model and the count of what ran.

    Attributes:
        tokens_run, rows_run: tokens through the body (without padding), rows through the head.
    """

    def __init__(self, model: PreTrainedModel, device: torch.device) -> None:
        self.device = device
        self.model: torch.nn.Module = model.to(device)  # type: ignore[arg-type]
        self.body = model.base_model
        self.dtype: torch.dtype = model.dtype
        self.max_len = context_length(model.config.get_text_config(), type(model).__name__)
        head: torch.nn.Linear = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        # A GPU multiplies half precision into float32; a CPU needs a float32 copy of the head.
        on_cpu = device.type == "cpu"
        self._weight_VD: Tensor = head.weight.float() if on_cpu else head.weight
        self._bias_V: Tensor | None = None if head.bias is None else head.bias.float()
        self.vocab_size = int(self._weight_VD.shape[0])
        self.tokens_run = 0
        self.rows_run = 0

    def hidden_rows(
        self, sequences: Sequence[NDArray[np.int32]], rows: Sequence[NDArray[np.int64]]
    ) -> Tensor:
        """The hidden states at the given places of each sequence, concatenated: [R, D]."""
        h_BTD: Tensor = self.body(
            input_ids=self._padded(sequences), use_cache=False
        ).last_hidden_state
        self.tokens_run += sum(map(len, sequences))
        batch = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        # Causal attention never looks at the padding on the right, so no mask is needed.
        return h_BTD[self._on_device(batch), self._on_device(np.concatenate(rows))]

    def prefill(self, sequences: Sequence[NDArray[np.int32]]) -> KVCache:
        """Keys and values of the sequences, those of the padding on the right included."""
        cache = KVCache()
        self.body(input_ids=self._padded(sequences), past_key_values=cache.hf, use_cache=True)
        self.tokens_run += sum(map(len, sequences))
        return cache

    def extend(
        self, tokens_BR: Tensor, places_BR: Tensor, visible_BRC: Tensor, cache: KVCache
    ) -> Tensor:
        """The hidden states [B, R, D] of R more tokens of each sequence, which join the cache.

        Each token stands at its place of the text it continues and sees the columns that
        `visible_BRC` says, so that one sequence can hold many continuations side by side.
        """
        bias_BRC = torch.zeros(visible_BRC.shape, dtype=self.dtype, device=self.device)
        bias_BRC.masked_fill_(~visible_BRC, torch.finfo(self.dtype).min)
        h_BRD: Tensor = self.body(
            input_ids=tokens_BR,
            position_ids=places_BR,
            attention_mask=bias_BRC[:, None],
            past_key_values=cache.hf,
            use_cache=True,
        ).last_hidden_state
        return h_BRD

    def logits(self, h_RD: Tensor) -> Tensor:
        """float32 [R, V]. For at most a batch of rows: they are built at once."""
        self.rows_run += len(h_RD)
        if self._weight_VD.dtype == torch.float32:
            logits_RV = h_RD.float() @ self._weight_VD.T
        else:
            logits_RV = torch.mm(h_RD, self._weight_VD.T, out_dtype=torch.float32)
        return logits_RV if self._bias_V is None else logits_RV + self._bias_V

    def logprobs(self, h_RD: Tensor, ids_RA: NDArray[np.int64]) -> NDArray[np.float32]:
        """log p of the given tokens after each row, float32 [R, A]."""
        parts = []
        for start in range(0, len(h_RD), _ROWS_AT_ONCE):
            logits_RV = self.logits(h_RD[start : start + _ROWS_AT_ONCE])
            chosen_RA = logits_RV.gather(1, self._on_device(ids_RA[start : start + _ROWS_AT_ONCE]))
            parts.append((chosen_RA - logits_RV.logsumexp(dim=-1, keepdim=True)).cpu())
        return torch.cat(parts).numpy()

    def _padded(self, sequences: Sequence[NDArray[np.int32]]) -> Tensor:
        tokens_BT = np.zeros((len(sequences), max(map(len, sequences))), dtype=np.int64)
        for row, sequence in zip(tokens_BT, sequences, strict=True):
            row[: len(sequence)] = sequence
        return self._on_device(tokens_BT)

    def _on_device(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


@torch.inference_mode()
def check_supported(lm: CausalLM) -> None:
    """Nothing, if body and head, apart and branching, give what the whole model gives.

    A model that caps or scales its logits, or places tokens by anything but their given
    position, would otherwise give wrong numbers in silence.

    Raises:
        ConfigError: they do not.
    """
    ids = (7 * np.arange(6) + 3) % lm.vocab_size
    tokens_1T = torch.from_numpy(ids)[None].to(lm.device)
    try:
        expected_TV = lm.model(input_ids=tokens_1T).logits[0].float()
        body_TV = lm.logits(lm.body(input_ids=tokens_1T, use_cache=False).last_hidden_state[0])
        # Two continuations of one prefix: ids[3] after three tokens, ids[2] after two of them.
        cache = lm.prefill([ids[:3].astype(np.int32)])
        places_1R = torch.tensor([[3, 2]], device=lm.device)
        visible_1RC = torch.tensor(
            [[[True, True, True, True, False], [True, True, False, False, True]]], device=lm.device
        )
        branch_RV = lm.logits(lm.extend(tokens_1T[:, [3, 2]], places_1R, visible_1RC, cache)[0])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(_unsupported(lm, " ".join(str(error).split()))) from None
    finally:
        lm.tokens_run = lm.rows_run = 0
    largest = float(expected_TV.abs().max())
    exact = lm.dtype == torch.float32
    # Half precision: the same hidden states, rounded once more in the whole model; other
    # attention kernels in the branches, through all layers.
    if float((body_TV - expected_TV).abs().max()) > (1e-3 if exact else 1e-2) * largest:
        raise ConfigError(_unsupported(lm, "its logits are not a linear map of its hidden states"))
    if float((branch_RV - expected_TV[[3, 2]]).abs().max()) > (1e-3 if exact else 5e-2) * largest:
        raise ConfigError(_unsupported(lm, "its attention does not follow mask and positions"))


def _unsupported(lm: CausalLM, reason: str) -> str:
    return f"{type(lm.model).__name__} is not supported: {reason}"
