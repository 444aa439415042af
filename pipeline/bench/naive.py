"""The baseline: annotation as the public implementations of the paper do it, on the same model.

Written after conceptofmind/toolformer, whose structure is also that of the others:

    P  one pass over [P(x), x] with full logits and a softmax over the vocabulary at every place
    S  `generate` at each position, its prompt repeated for the m samples
    L  for each position three batches, one sequence for every sample that became a call, padded
       to the longest: x alone, x after e(c, eps), x after e(c, r); full logits, log_softmax over
       the vocabulary, the tokens of x gathered, the weighted sum over five of them

Nothing is shared between positions or between equal calls, and x is never cut.

Shape suffixes: n tokens of the document, m samples, C candidates of a position, T tokens,
V vocabulary, W window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, PreTrainedModel

from pipeline.bench.work import Work, pairs_of
from pipeline.losses import WEIGHTS_W

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixPair:
    """A candidate as two prefixes of x: e(c, eps) and e(c, r)."""

    call_ids: Ids
    plus_ids: Ids


class NaiveBaseline:
    """P, S and L of one document at a time; `work` counts what ran through the model."""

    def __init__(self, model: PreTrainedModel, *, bos_id: int) -> None:
        self._model: Any = model
        self._bos_id = bos_id
        self.work = Work()
        # An end-of-text token from the model's own settings would end samples.
        self._model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
        self._model.base_model.register_forward_pre_hook(self._count_tokens, with_kwargs=True)
        head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        head.register_forward_pre_hook(self._count_rows)

    @torch.inference_mode()
    def positions(self, prompt_ids: Ids, x_ids: Ids, open_id: int) -> NDArray[np.float64]:
        """p_i of every place of x, float64 [n]."""
        logits_TV = self._model(input_ids=self._tokens(prompt_ids, x_ids), use_cache=False).logits
        probabilities_TV = torch.softmax(logits_TV[0], dim=-1)
        before = len(prompt_ids)
        p_n = probabilities_TV[before : before + len(x_ids), open_id]
        return np.asarray(p_n.double().cpu().numpy())

    @torch.inference_mode()
    def samples(
        self, prefix_ids: Ids, *, m: int, max_new_tokens: int, greedy: bool = False
    ) -> list[list[int]]:
        """m continuations of `prefix_ids` by exactly `max_new_tokens`; one of them when greedy."""
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            max_new_tokens=max_new_tokens,
            do_sample=not greedy,
            top_k=0,  # the library's default would be 50
            num_return_sequences=1 if greedy else m,
            pad_token_id=0,
        )
        prompt_1T = self._tokens(prefix_ids)
        text_mT = self._model.generate(
            prompt_1T, attention_mask=torch.ones_like(prompt_1T), generation_config=config
        )
        return [list(map(int, row)) for row in text_mT[:, prompt_1T.shape[1] :].tolist()]

    @torch.inference_mode()
    def losses(
        self, x_ids: Ids, position: int, candidates: Sequence[PrefixPair]
    ) -> NDArray[np.float64]:
        """[C, 3]: L(eps), L(e(c, eps)) and L(e(c, r)) of a position in nats."""
        none = np.zeros(0, dtype=np.int32)
        kinds = (
            [none for _ in candidates],
            [candidate.call_ids for candidate in candidates],
            [candidate.plus_ids for candidate in candidates],
        )
        return np.stack([self._batch_losses(zs, x_ids, position) for zs in kinds], axis=1)

    def _batch_losses(self, zs: Sequence[Ids], x_ids: Ids, position: int) -> NDArray[np.float64]:
        longest = max(map(len, zs)) + 1 + len(x_ids)
        tokens_CT = np.zeros((len(zs), longest), dtype=np.int64)
        for row, z_ids in zip(tokens_CT, zs, strict=True):
            row[: 1 + len(z_ids) + len(x_ids)] = [self._bos_id, *z_ids, *x_ids]
        fed_CT = torch.from_numpy(tokens_CT).to(self._model.device)
        logits_CTV = self._model(input_ids=fed_CT, use_cache=False).logits
        logprobs_CTV = torch.log_softmax(logits_CTV.float(), dim=-1)
        window = min(len(WEIGHTS_W), len(x_ids) - position)
        # Row t predicts token t + 1, and x begins after the begin-of-text token and z.
        rows_CW = torch.tensor([[len(z) + position + t for t in range(window)] for z in zs])
        rows_CW = rows_CW.to(logprobs_CTV.device)
        next_CW = fed_CT.gather(1, rows_CW + 1)
        of_rows_CWV = logprobs_CTV[torch.arange(len(zs), device=rows_CW.device)[:, None], rows_CW]
        chosen_CW = of_rows_CWV.gather(2, next_CW[:, :, None]).squeeze(2)
        return np.asarray(-(chosen_CW.double().cpu().numpy() @ WEIGHTS_W[:window]))

    def _tokens(self, *parts: Ids) -> torch.Tensor:
        tokens = np.concatenate([[self._bos_id], *parts]).astype(np.int64)
        return torch.from_numpy(tokens)[None].to(self._model.device)

    def _count_tokens(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        sequences, length = (args[0] if args else kwargs["input_ids"]).shape
        cache = kwargs.get("past_key_values")
        before = 0 if cache is None else int(cache.get_seq_length())
        pairs = sequences * pairs_of(before, before + length)
        self.work += Work(tokens=sequences * length, pairs=pairs)

    def _count_rows(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        self.work += Work(rows=args[0].shape[:-1].numel())
