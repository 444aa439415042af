"""What the engines must equal: plain Hugging Face forwards, one for each number, no tricks.

Every probability comes from a forward of its own over the whole text before it, full logits,
and a float64 log_softmax; samples come from `generate`.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, PreTrainedModel

from pipeline.engines.drawing import uniform
from pipeline.engines.protocol import (
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)


class SlowReference:
    """A model and the token every sequence begins with."""

    def __init__(self, model: PreTrainedModel, *, bos_id: int, eos_id: int) -> None:
        self._model, self._bos_id, self._eos_id = model, bos_id, eos_id

    def position_logprobs(
        self, request: PositionRequest, token_ids: list[int]
    ) -> NDArray[np.float64]:
        """[n, A]"""
        rows = [
            self._next_token_logprobs(request.prompt_ids, request.x_ids[:i])[token_ids]
            for i in range(len(request.x_ids))
        ]
        return np.array(rows)

    def window_logprobs(self, request: LossRequest, width: int) -> NDArray[np.float64]:
        """[Q, W], NaN past the end of x."""
        answer_QW = np.full((len(request.positions), width), np.nan)
        for q, i in enumerate(request.positions):
            for t in range(width):
                if i + t < len(request.x_ids):
                    logprobs_V = self._next_token_logprobs(request.z_ids, request.x_ids[: i + t])
                    answer_QW[q, t] = logprobs_V[request.x_ids[i + t]]
        return answer_QW

    def greedy(
        self, request: SampleRequest, *, stop_ids: frozenset[int], max_new_tokens: int
    ) -> list[Sample]:
        """One sample for each position."""
        samples = []
        for i in request.positions:
            before = self._tokens(
                request.prompt_ids, request.x_ids[:i], np.array(request.open_ids, dtype=np.int32)
            )
            config = GenerationConfig(  # type: ignore[no-untyped-call]
                max_new_tokens=max_new_tokens,
                do_sample=False,
                eos_token_id=[*stop_ids, self._eos_id],
                pad_token_id=self._eos_id,
            )
            with torch.inference_mode():
                text = self._model.generate(  # type: ignore[operator]
                    before, attention_mask=torch.ones_like(before), generation_config=config
                )
            new = tuple(text[0, before.shape[1] :].tolist())
            samples.append(Sample(new, new[-1] in stop_ids))
        return samples

    def draw(self, request: SampleRequest, params: SamplingParams) -> list[list[Sample]]:
        """[K][m]: a forward over everything for each token, and the sampler written out."""
        return [
            [self._draw_one(request, int(i), int(seed), params) for seed in seeds_m]
            for i, seeds_m in zip(request.positions, request.seeds_Km, strict=True)
        ]

    def _draw_one(
        self, request: SampleRequest, position: int, seed: int, params: SamplingParams
    ) -> Sample:
        new: list[int] = []
        for step in range(params.max_new_tokens):
            after = np.array([*request.open_ids, *new], dtype=np.int32)
            logprobs_V = self._next_token_logprobs(
                request.prompt_ids, request.x_ids[:position], after
            )
            p_V = np.exp(logprobs_V / params.temperature)
            p_V /= p_V.sum()
            probable_first = np.argsort(-p_V, kind="stable")
            nucleus, mass = set(), 0.0
            for token in probable_first:
                if mass < params.top_p:
                    nucleus.add(int(token))
                mass += p_V[token]
            target = uniform(seed, step) * sum(p_V[token] for token in nucleus)
            for token in sorted(nucleus):
                target -= p_V[token]
                if target < 0:
                    break
            new.append(token)
            if token in params.stop_ids or token == self._eos_id:
                break
        return Sample(tuple(new), new[-1] in params.stop_ids)

    def _next_token_logprobs(self, *parts: NDArray[np.int32]) -> NDArray[np.float64]:
        with torch.inference_mode():
            logits_TV = self._model(input_ids=self._tokens(*parts)).logits[0]
        logprobs_V = torch.log_softmax(logits_TV[-1].double(), dim=-1)
        return np.asarray(logprobs_V.numpy())

    def _tokens(self, *parts: NDArray[np.int32]) -> torch.Tensor:
        tokens = np.concatenate([[self._bos_id], *parts]).astype(np.int64)
        return torch.from_numpy(tokens)[None]
