"""TorchEngine: any Hugging Face causal language model on CPU or GPU, exact and deterministic.

P and L are the same work, rows of hidden states and the log-probabilities of a few tokens after
them; S decodes all samples of a document together (decoding.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.engines.batching import form_batches
from pipeline.engines.causal_lm import CausalLM, check_supported
from pipeline.engines.checkpoint import load_model, weights_id
from pipeline.engines.decoding import sample_requests
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
from tools.base import ConfigError, ContractError


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """One sequence, the places whose next token is asked about, and the tokens asked for."""

    tokens: NDArray[np.int32]
    rows: NDArray[np.int64]  # [R]
    ids_RA: NDArray[np.int64]


class TorchEngine:
    """The LMEngine of protocol.py with plain padded batches of at most `token_budget` tokens.

    Batches are formed inside one call and in a fixed order: what a call returns depends on its
    arguments alone.
    """

    def __init__(
        self,
        path: str,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        token_budget: int = 8192,
        num_threads: int = 1,
    ) -> None:
        """Raises ConfigError for a checkpoint that is missing, torn, or not supported."""
        torch.set_num_threads(num_threads)
        codec = TokenCodec.load(path, revision)
        if codec.bos_id is None:
            raise ConfigError(
                f"{path}: its tokenizer has no begin-of-text and no end-of-text token"
            )
        self._bos_id, self._eos_id = codec.bos_id, codec.eos_id
        self._lm = CausalLM(load_model(path, revision, dtype), torch.device(device))
        if self._bos_id >= self._lm.vocab_size:
            raise ConfigError(
                f"{path}: the model has {self._lm.vocab_size} tokens and the tokenizer's "
                f"begin-of-text token is {self._bos_id}: they do not belong together"
            )
        check_supported(self._lm)
        self.kept_tokens, self.concurrency = 0, 1
        self._token_budget = token_budget
        self._usage = EngineUsage()
        self.info = EngineInfo(
            name="torch",
            version=str(torch.__version__),
            device=device,
            dtype=dtype,
            max_len=self._lm.max_len,
            vocab_size=self._lm.vocab_size,
            weights_id=weights_id(path, revision),
        )

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32]]:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        passes = []
        for request in requests:
            n = len(request.x_ids)
            tokens = self._sequence(request.prompt_ids, request.x_ids[: max(n - 1, 0)])
            rows = len(request.prompt_ids) + np.arange(n)
            ids_RA = np.broadcast_to(np.array(token_ids, dtype=np.int64), (n, len(token_ids)))
            passes.append(_Pass(tokens=tokens, rows=rows, ids_RA=ids_RA))
        self._check_lengths("position_logprobs", (len(p.tokens) for p in passes))
        answers = self._run(passes)
        self._count("position_tokens")
        return answers

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32]]:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x.

        Requests of the same z and x share a pass, and windows that overlap share rows.
        """
        keys = [(request.z_ids.tobytes(), request.x_ids.tobytes()) for request in requests]
        wanted: dict[tuple[bytes, bytes], set[int]] = {key: set() for key in keys}
        documents = dict(zip(keys, requests, strict=True))
        for key, request in zip(keys, requests, strict=True):
            self._check_positions("window_logprobs", request.positions, len(request.x_ids))
            for i in request.positions.tolist():
                wanted[key].update(range(i, min(i + width, len(request.x_ids))))
        tokens_wanted = {key: np.array(sorted(at), dtype=np.int64) for key, at in wanted.items()}
        passes = {
            key: self._loss_pass(documents[key], at) for key, at in tokens_wanted.items() if at.size
        }
        self._check_lengths("window_logprobs", (len(p.tokens) for p in passes.values()))
        logprobs = {}
        for key, answer_R1 in zip(passes, self._run(list(passes.values())), strict=True):
            of_token = np.full(len(documents[key].x_ids) + width, np.nan, dtype=np.float32)
            of_token[tokens_wanted[key]] = answer_R1[:, 0]
            logprobs[key] = of_token
        self._count("loss_tokens")
        return [
            logprobs[key][request.positions[:, None] + np.arange(width)]
            if request.positions.size
            else np.zeros((0, width), dtype=np.float32)
            for key, request in zip(keys, requests, strict=True)
        ]

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]]]:
        """For each request K lists of m samples."""
        for request in requests:
            self._check_positions("sample", request.positions, len(request.x_ids))
        self._check_lengths(
            "sample",
            (
                1
                + len(request.prompt_ids)
                + int(request.positions.max(initial=0))
                + len(request.open_ids)
                + params.max_new_tokens
                for request in requests
            ),
        )
        with torch.inference_mode():
            samples = sample_requests(
                self._lm,
                requests,
                params,
                bos_id=self._bos_id,
                eos_id=self._eos_id,
                token_budget=self._token_budget,
            )
        self._count("sample_tokens")
        return samples

    def usage(self) -> EngineUsage:
        return self._usage

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Go on with the weights of another checkpoint of the same model."""
        model = load_model(path, revision, self.info.dtype)
        self._lm = CausalLM(model, self._lm.device)
        self.info = self.info._replace(weights_id=weights_id(path, revision))

    def _loss_pass(self, request: LossRequest, tokens_wanted: NDArray[np.int64]) -> _Pass:
        """The shortest sequence that predicts every wanted token of x."""
        return _Pass(
            tokens=self._sequence(request.z_ids, request.x_ids[: int(tokens_wanted[-1])]),
            rows=len(request.z_ids) + tokens_wanted,
            ids_RA=request.x_ids[tokens_wanted].astype(np.int64)[:, None],
        )

    def _sequence(self, *parts: NDArray[np.int32]) -> NDArray[np.int32]:
        return np.concatenate([[self._bos_id], *parts]).astype(np.int32)

    @torch.inference_mode()
    def _run(self, passes: Sequence[_Pass]) -> list[NDArray[np.float32]]:
        """float32 [R, A] for each pass."""
        answers = [np.zeros(p.ids_RA.shape, dtype=np.float32) for p in passes]
        busy = [index for index, p in enumerate(passes) if len(p.rows)]
        for batch in form_batches([len(passes[i].tokens) for i in busy], self._token_budget):
            members = [busy[b] for b in batch]
            h_RD = self._lm.hidden_rows(
                [passes[i].tokens for i in members], [passes[i].rows for i in members]
            )
            logprobs_RA = self._lm.logprobs(
                h_RD, np.concatenate([passes[i].ids_RA for i in members])
            )
            ends = np.cumsum([len(passes[i].rows) for i in members])[:-1]
            for i, part_RA in zip(members, np.split(logprobs_RA, ends), strict=True):
                answers[i] = part_RA
        return answers

    def _count(self, kind: str) -> None:
        """Move what the model ran since the last call to the account of `kind`."""
        usage = self._usage
        self._usage = usage._replace(
            **{kind: getattr(usage, kind) + self._lm.tokens_run},
            head_rows=usage.head_rows + self._lm.rows_run,
        )
        self._lm.tokens_run = self._lm.rows_run = 0

    def _check_lengths(self, stage: str, lengths: Iterable[int]) -> None:
        for index, length in enumerate(lengths):
            if length > self._lm.max_len:
                raise ContractError(
                    stage=stage,
                    doc_id=f"number {index} of the call",
                    got=f"a prompt longer than the context: {length} tokens",
                    expected=f"at most {self._lm.max_len} tokens",
                )

    def _check_positions(self, stage: str, positions: NDArray[np.int32], n: int) -> None:
        if positions.size and (positions.min() < 0 or positions.max() >= n):
            raise ContractError(
                stage=stage,
                doc_id=f"of {n} tokens",
                got=f"positions from {positions.min()} to {positions.max()}",
                expected=f"positions from 0 to {n - 1}",
            )
