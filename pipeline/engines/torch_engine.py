"""TorchEngine: any Hugging Face causal language model on CPU or GPU, exact and deterministic.

P and L are the same work, rows of hidden states and the log-probabilities of a few tokens after
them; S decodes all samples of many documents together (decoding.py). What P computed of a
document is kept until S has gone on from it, and what it computed of a tool's examples for good.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.engines.checkpoint import load_model, weights_id
from pipeline.engines.contract import check_lengths, check_positions, check_samples
from pipeline.engines.decoding import TokenBytes
from pipeline.engines.pass_runner import PassRunner
from pipeline.engines.passes import LossPasses, position_pass, shared_tokens, text_key
from pipeline.engines.protocol import (
    EngineUsage,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.engines.replaceable import check_replaceable
from pipeline.engines.sampler import Sampler
from pipeline.engines.torch_checkpoint import load_checkpoint, on_device


class TorchEngine:
    """The LMEngine of protocol.py; passes of at most `token_budget` tokens.

    Packs are formed inside one call and in a fixed order: what P and L return depends on their
    arguments alone, what S returns in its last digits also on the P before it. Where memory runs
    out packs get smaller, which may change last digits, too.
    """

    concurrency = 1

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        bos_id: int,
        eos_id: int | None,
        token_bytes: TokenBytes,
        weights_id: str,
        device: str = "cpu",
        token_budget: int = 8192,
        kept_tokens: int = 32_768,
        num_threads: int = 1,
    ) -> None:
        """An engine of a model in memory. Raises ConfigError for one that is not supported."""
        torch.set_num_threads(num_threads)
        self._bos_id, self._eos_id, self._token_bytes = bos_id, eos_id, token_bytes
        self._token_budget, self._kept_limit = token_budget, kept_tokens
        self._checkpoint: tuple[str, str | None] | None = None  # None: not from a directory
        self._usage = EngineUsage()
        self._start(model, torch.device(device), weights_id)

    def _start(self, model: PreTrainedModel, device: torch.device, weights_id: str) -> None:
        self._lm, self.info = on_device(model, device, weights_id)
        self._runner = PassRunner(self._lm, self._token_budget)
        self._sampler = Sampler(
            self._lm,
            self._runner,
            bos_id=self._bos_id,
            eos_id=self._eos_id,
            token_bytes=self._token_bytes,
            token_budget=self._token_budget,
        )
        self.kept_tokens = self._kept_limit if self._lm.keeps else 0

    @classmethod
    def load(
        cls,
        path: str,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        token_budget: int = 8192,
        kept_tokens: int = 32_768,
        num_threads: int = 1,
    ) -> "TorchEngine":
        """The engine of a checkpoint.

        Raises:
            ConfigError: the checkpoint is missing, torn, or not supported.
        """
        model, codec, bos_id, weights_id = load_checkpoint(path, revision, dtype)
        engine = cls(
            model,
            bos_id=bos_id,
            eos_id=codec.eos_id,
            token_bytes=codec.token_bytes,
            weights_id=weights_id,
            device=device,
            token_budget=token_budget,
            kept_tokens=kept_tokens,
            num_threads=num_threads,
        )
        engine._checkpoint = (path, revision)
        return engine

    @torch.inference_mode()
    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32] | None]:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        passes = [
            position_pass(
                request,
                token_ids,
                bos_id=self._bos_id,
                shared=shared_tokens(request) if self._lm.keeps else 0,
            )
            for request in requests
        ]
        lengths = (len(p.beginning) + len(p.tokens) for p in passes)
        check_lengths("position_logprobs", lengths, self.info.max_len)
        self._runner.kept.clear()
        ends = np.cumsum([len(p.tokens) for p in passes])
        keys = [
            text_key(request) if end <= self.kept_tokens else None
            for request, end in zip(requests, ends.tolist(), strict=True)
        ]
        answers = self._runner.run(passes, keys)
        self._count("position_tokens")
        return answers

    @torch.inference_mode()
    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32] | None]:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x.

        Requests of the same z and x share a pass, and windows that overlap share rows.
        """
        check_positions("window_logprobs", requests)
        loss = LossPasses(requests, width, self._bos_id)
        lengths = (len(p.tokens) for p in loss.passes)
        check_lengths("window_logprobs", lengths, self.info.max_len)
        answers = self._runner.run(loss.passes, [None] * len(loss.passes))
        self._count("loss_tokens")
        return loss.answers(answers)

    @torch.inference_mode()
    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        """For each request K lists of m samples."""
        check_samples(requests, params, self.info.max_len)
        samples = self._sampler.sample(requests, params)
        self._runner.kept.clear()
        self._count("sample_tokens")
        return samples

    def usage(self) -> EngineUsage:
        return self._usage

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Go on with other weights of the same architecture and tokenizer; `info` follows.

        Raises:
            ConfigError: the checkpoint is missing, torn, or of another shape.
        """
        if self._checkpoint is not None:
            check_replaceable(*self._checkpoint, path, revision)
        self._runner.relieve(True)  # both models are in memory for a moment
        model = load_model(path, revision, self.info.dtype)
        self._start(model, self._lm.device, weights_id(path, revision))
        self._checkpoint = (path, revision)

    def _count(self, kind: str) -> None:
        """Move what the model ran since the last call to the account of `kind`."""
        lm, usage = self._lm, self._usage
        self._usage = usage._replace(
            **{kind: getattr(usage, kind) + lm.tokens_run},
            padding_tokens=usage.padding_tokens + lm.padding_run,
            head_rows=usage.head_rows + lm.head.rows_run,
        )
        lm.tokens_run = lm.padding_run = lm.head.rows_run = 0
