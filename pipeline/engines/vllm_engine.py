"""VLLMEngine: a language model in vLLM, whose scheduler mixes the requests of many units.

Exact like TorchEngine: where this vLLM has no exact answer to a request, it is refused.
"""

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.engine_config import VLLM_CONCURRENCY
from pipeline.engines.checkpoint import load_config, weights_id
from pipeline.engines.contract import check_lengths, check_positions, check_samples, load_codec
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.engines.replaceable import check_replaceable
from pipeline.engines.vllm_capabilities import (
    TOP,
    TOP_FLOOR,
    Capabilities,
    check_temperature,
    vllm_version,
)
from pipeline.engines.vllm_core import VLLMCore
from pipeline.engines.vllm_requests import (
    Tally,
    position_logprobs,
    samples,
    together,
    token_logprobs,
)
from pipeline.engines.vllm_start import CoreSettings


class VLLMEngine:
    """The LMEngine of protocol.py on vLLM. Every method may be called from several threads.

    `kept_tokens` is this unit's share of the prefix cache when `concurrency` units are at work.
    No answer is None: vLLM does not start where its cache does not hold a whole context, and
    lets requests wait that do not fit beside others. On a CPU the cache has 1 GiB, or as many
    GiB as the variable VLLM_CPU_KVCACHE_SPACE says.

    Attributes:
        core: what is asked.
        bos_id: the token every sequence begins with.
        remark: one line for the user where P cannot be asked in the best way, else None.
    """

    def __init__(
        self,
        path: str,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        num_threads: int = 1,
        tensor_parallel_size: int = 1,
        distributed_executor_backend: str | None = None,
        max_num_batched_tokens: int = 8192,
        max_num_seqs: int = 256,
        gpu_memory_utilization: float = 0.9,
    ) -> None:
        """Raises ConfigError for a checkpoint or a vLLM that is missing or not usable."""
        codec, self.bos_id = load_codec(path, revision)
        self._eos_id = codec.eos_id
        config = load_config(path, revision)
        settings = CoreSettings(
            path=path,
            revision=revision,
            dtype=dtype,
            device=device,
            context_length=config.context_length,
            num_threads=num_threads,
            tensor_parallel_size=tensor_parallel_size,
            distributed_executor_backend=distributed_executor_backend,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            gpu_memory_utilization=gpu_memory_utilization,
        )
        self.core = VLLMCore(settings)
        self._checkpoint = (path, revision)
        self._usage = threading.local()
        self.concurrency = VLLM_CONCURRENCY
        self.kept_tokens = self.core.kept_tokens // self.concurrency
        self.remark = _remark(self.core.capabilities)
        self.info = _info(settings, config.vocab_size)

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32]]:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        methods = [self.core.capabilities.position_method(r.floor) for r in requests]
        # vLLM draws a token after the last, which must have its place in the context.
        lengths = (2 + len(r.prompt_ids) + len(r.x_ids) for r in requests)
        check_lengths("position_logprobs", lengths, self.info.max_len)
        tally = Tally()
        answers = self.core.run(
            together(
                position_logprobs(
                    self.core,
                    [self.bos_id, *request.prompt_ids.tolist()],
                    request.x_ids.tolist(),
                    token_ids,
                    method,
                    tally,
                )
                for request, method in zip(requests, methods, strict=True)
            )
        )
        self._count("position_tokens", tally)
        return answers

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32]]:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x.

        Requests of the same z and x share a prompt, which ends with the last token asked about.
        """
        check_positions("window_logprobs", requests)
        spans = _spans(requests, width)
        lengths = (2 + len(span.z_ids) + span.end for span in spans.values())
        check_lengths("window_logprobs", lengths, self.info.max_len)
        tally = Tally()
        answers = self.core.run(
            together(
                token_logprobs(
                    self.core,
                    [self.bos_id, *span.z_ids.tolist()],
                    span.x_ids[: span.end].tolist(),
                    span.first,
                    tally,
                )
                for span in spans.values()
            )
        )
        self._count("loss_tokens", tally)
        logprobs = {}
        for (key, span), answer in zip(spans.items(), answers, strict=True):
            logprobs[key] = np.full(len(span.x_ids) + width, np.nan, dtype=np.float32)
            logprobs[key][span.first : span.end] = answer
        return [
            logprobs[_key(request)][request.positions[:, None] + np.arange(width)]
            if request.positions.size
            else np.zeros((0, width), dtype=np.float32)
            for request in requests
        ]

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]]]:
        """For each request K lists of m samples."""
        check_temperature("sampling.temperature", params.temperature)
        check_samples(requests, params, self.info.max_len)
        tally = Tally()
        answers = self.core.run(
            together(
                samples(
                    self.core,
                    request,
                    params,
                    bos_id=self.bos_id,
                    eos_id=self._eos_id,
                    tally=tally,
                )
                for request in requests
            )
        )
        self._count("sample_tokens", tally)
        return answers

    def usage(self) -> EngineUsage:
        """What this thread had the model do; tokens vLLM found in its cache do not count."""
        return getattr(self._usage, "so_far", EngineUsage())

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Go on with other weights of the same model, in place; nothing may be asked meanwhile.

        Raises:
            ConfigError: the checkpoint is missing, torn, or of another shape or tokenizer.
        """
        check_replaceable(*self._checkpoint, path, revision)
        identity = weights_id(path, revision)
        self.core.reload_weights(_directory(path, revision))
        self._checkpoint = (path, revision)
        self.info = self.info._replace(weights_id=identity)

    def close(self) -> None:
        """End vLLM's processes; otherwise they end with the last reference, or this process."""
        self.core.close()

    def _count(self, kind: str, tally: Tally) -> None:
        usage = self.usage()
        self._usage.so_far = usage._replace(
            **{kind: getattr(usage, kind) + tally.tokens},
            head_rows=usage.head_rows + tally.rows,
        )


class _Span(NamedTuple):
    """The tokens of x that are scored after z: x[first:end]."""

    z_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]
    first: int
    end: int


def _key(request: LossRequest) -> tuple[bytes, bytes]:
    return request.z_ids.tobytes(), request.x_ids.tobytes()


def _spans(requests: Sequence[LossRequest], width: int) -> dict[tuple[bytes, bytes], _Span]:
    """By z and x, from the first token of all windows to the last."""
    spans: dict[tuple[bytes, bytes], _Span] = {}
    for request in requests:
        if request.positions.size:
            n = len(request.x_ids)
            span = spans.get(_key(request), _Span(request.z_ids, request.x_ids, n, 0))
            spans[_key(request)] = span._replace(
                first=min(span.first, int(request.positions.min())),
                end=max(span.end, min(int(request.positions.max()) + width, n)),
            )
    return spans


def _info(settings: CoreSettings, vocab_size: int) -> EngineInfo:
    return EngineInfo(
        name="vllm",
        version=str(vllm_version()),
        device=settings.device,
        dtype=settings.dtype,
        max_len=settings.context_length,
        vocab_size=vocab_size,
        weights_id=weights_id(settings.path, settings.revision),
    )


def _remark(capabilities: Capabilities) -> str | None:
    if capabilities.prompt_ids:
        return None
    small = "asks one request per position" if capabilities.sample_ids else "is not possible"
    return (
        f"vLLM {vllm_version()} on this device tells no chosen tokens of a prompt: P {small} where "
        f"tau_s is below {TOP_FLOOR:g}, else asks for the {TOP} likeliest tokens"
    )


def _directory(path: str, revision: str | None) -> str:
    """Where a checkpoint lies; vLLM's reload knows no revisions."""
    if os.path.isdir(path):
        return path
    from huggingface_hub import snapshot_download

    return snapshot_download(path, revision=revision)
