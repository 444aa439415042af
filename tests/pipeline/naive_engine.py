"""An engine without a single reduction: what the fast path must not differ from.

One Hugging Face forward with full logits for each request, one sample after the other with a
prefix of its own, no batch, no early end, nothing kept from one request to the next.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, DynamicCache

from pipeline.engines.drawing import draw, uniform
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.tokens import TokenCodec


class NaiveEngine:
    """The LMEngine of protocol.py over the checkpoint in `path`, in float32 on the CPU."""

    kept_tokens = 0
    concurrency = 1

    def __init__(self, path: str) -> None:
        codec = TokenCodec.load(path)
        assert codec.bos_id is not None
        self._bos_id, self._eos_id = codec.bos_id, codec.eos_id
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        self._model = model.eval()
        self.info = EngineInfo(
            name="naive",
            version="0",
            device="cpu",
            dtype="float32",
            max_len=self._model.config.max_position_embeddings,
            vocab_size=self._model.config.vocab_size,
            weights_id=path,
        )

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32] | None]:
        answers: list[NDArray[np.float32] | None] = []
        for request in requests:
            logprobs_TV = self._logprobs(request.prompt_ids, request.x_ids)
            before = len(request.prompt_ids)
            rows_nA = logprobs_TV[before : before + len(request.x_ids)][:, list(token_ids)]
            answers.append(rows_nA.numpy())
        return answers

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32] | None]:
        answers: list[NDArray[np.float32] | None] = []
        for request in requests:
            logprobs_TV = self._logprobs(request.z_ids, request.x_ids)
            answer_QW = np.full((len(request.positions), width), np.nan, dtype=np.float32)
            for q, i in enumerate(request.positions.tolist()):
                for j in range(i, min(i + width, len(request.x_ids))):
                    row = len(request.z_ids) + j
                    answer_QW[q, j - i] = logprobs_TV[row, int(request.x_ids[j])]
            answers.append(answer_QW)
        return answers

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        return [
            [
                [self._sample_one(request, int(i), int(seed), params) for seed in seeds_m]
                for i, seeds_m in zip(request.positions, request.seeds_Km, strict=True)
            ]
            for request in requests
        ]

    def usage(self) -> EngineUsage:
        return EngineUsage()

    def load_weights(self, path: str, revision: str | None = None) -> None:
        raise NotImplementedError("the naive engine keeps its weights")

    @torch.inference_mode()
    def _sample_one(
        self, request: SampleRequest, position: int, seed: int, params: SamplingParams
    ) -> Sample:
        cache = DynamicCache()
        fed = self._tokens(
            request.prompt_ids, request.x_ids[:position], np.array(request.open_ids, np.int32)
        )
        new: list[int] = []
        while len(new) < params.max_new_tokens:
            logits_TV = self._model(input_ids=fed, past_key_values=cache).logits[0]
            number_11 = torch.tensor([[uniform(seed, len(new))]], dtype=torch.float64)
            token_11 = draw(
                logits_TV[-1:], number_11, temperature=params.temperature, top_p=params.top_p
            )
            token = int(token_11.item())
            new.append(token)
            if token in params.stop_ids or token == self._eos_id:
                break
            fed = torch.tensor([[token]])
        return Sample(tuple(new), new[-1] in params.stop_ids)

    @torch.inference_mode()
    def _logprobs(self, *parts: NDArray[np.int32]) -> torch.Tensor:
        """float32 [T, V]: row t predicts the token after `parts[: t]`."""
        logits_TV = self._model(input_ids=self._tokens(*parts), use_cache=False).logits[0]
        return torch.log_softmax(logits_TV, dim=-1)

    def _tokens(self, *parts: NDArray[np.int32]) -> torch.Tensor:
        tokens = np.concatenate([[self._bos_id], *parts]).astype(np.int64)
        return torch.from_numpy(tokens)[None]
