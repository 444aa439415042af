"""A codec whose tokens are single characters, and an engine that answers from a script.

With them positions are character positions and losses are numbers written in a test.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pipeline.config import SamplingConfig
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.method import Method, ToolMethod
from pipeline.tokens import TokenCodec


def letter_codec() -> TokenCodec:
    """Every byte is a token; " [" is one more."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: number for number, symbol in enumerate(alphabet)}
    vocabulary["\u0120["] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[("\u0120", "[")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return TokenCodec(tokenizer, bos_id=None, eos_id=None, name="letters")


def text_of(codec: TokenCodec, ids: Sequence[int] | NDArray[np.int32]) -> str:
    return b"".join(codec.token_bytes(ids)).decode()


class ScriptedEngine:
    """Answers P, S and L from three functions of text; counts what it was asked.

    p_api(text, position), samples(text, position) -> strings after " [", and
    loss(z, text, position) -> nats at every token of the window. Texts with "HUGE" in them never
    fit when asked for the kind of work that `too_large_for` names.
    """

    def __init__(
        self,
        codec: TokenCodec,
        *,
        p_api: Callable[[str, int], float],
        samples: Callable[[str, int], Sequence[str]],
        loss: Callable[[str, str, int], float],
        kept_tokens: int = 0,
        too_large_for: Sequence[str] = (),
    ) -> None:
        self.kept_tokens, self.concurrency = kept_tokens, 1
        self._too_large_for = too_large_for
        self.asked: list[tuple[str, list[str]]] = []  # kind of work and texts of each call
        self.info = EngineInfo("scripted", "1", "cpu", "float32", 4096, 512, "none")
        self.sampled_at: list[tuple[str, int]] = []
        self.scored: list[tuple[str, str, int]] = []
        self._codec, self._p_api, self._samples, self._loss = codec, p_api, samples, loss

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32] | None]:
        assert tuple(token_ids) == self._codec.open_ids
        answers: list[NDArray[np.float32] | None] = []
        for request, fits in zip(requests, self._fitting("P", requests), strict=True):
            text = text_of(self._codec, request.x_ids)[1:]
            if not fits:
                answers.append(None)
                continue
            p = [self._p_api(text, i) for i in range(len(request.x_ids))]
            answers.append(np.log(np.array(p, dtype=np.float32))[:, None])
        return answers

    def _fitting(
        self, kind: str, requests: Sequence[PositionRequest | SampleRequest | LossRequest]
    ) -> list[bool]:
        texts = [text_of(self._codec, request.x_ids)[1:] for request in requests]
        self.asked.append((kind, texts))
        return [kind not in self._too_large_for or "HUGE" not in text for text in texts]

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        return [
            [
                [self._sample(text_of(self._codec, request.x_ids)[1:], int(i), j) for j in range(m)]
                for i in request.positions
            ]
            if fits
            else None
            for request, fits in zip(requests, self._fitting("S", requests), strict=True)
            for m in [request.seeds_Km.shape[1]]
        ]

    def _sample(self, text: str, position: int, number: int) -> Sample:
        if number == 0:
            self.sampled_at.append((text, position))
        written = self._samples(text, position)[number]
        ids = tuple(self._codec.encode_pieces([written]).tolist())
        return Sample(ids, ended=written.endswith("]"))

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32] | None]:
        answers: list[NDArray[np.float32] | None] = []
        for request in requests:
            z, text = (text_of(self._codec, ids) for ids in (request.z_ids, request.x_ids))
            kind = "L+" if " -> " in z else "L(call)" if z else "L(eps)"
            if self._fitting(kind, [request]) == [False]:
                answers.append(None)
                continue
            for i in request.positions.tolist():
                self.scored.append((z, text[1:], i))
            rows = [[-self._loss(z, text[1:], int(i))] * width for i in request.positions]
            answers.append(np.array(rows, dtype=np.float32))
        return answers

    def usage(self) -> EngineUsage:
        return EngineUsage()

    def load_weights(self, path: str, revision: str | None = None) -> None:
        raise NotImplementedError


def letter_method(
    *,
    tools: Sequence[str] = ("Calculator",),
    tau_s: float = 0.05,
    tau_f: float = 1.0,
    k: int = 5,
    m: int = 2,
    exact_reductions: bool = True,
    smallest_tau_f: float = 0.5,
    max_document_tokens: int = 1000,
    max_document_bytes: int = 100_000,
) -> Method:
    """A method with the same settings for every tool and a prompt of two lines."""
    template = "Input: {x}\nOutput:"
    return Method(
        tools={
            name: ToolMethod(name=name, template=template, tau_s=tau_s, tau_f=tau_f, k=k, m=m)
            for name in tools
        },
        seed=0,
        sampling=SamplingConfig(),
        max_document_tokens=max_document_tokens,
        max_document_bytes=max_document_bytes,
        max_result_tokens=100,
        exact_reductions=exact_reductions,
        smallest_tau_f=smallest_tau_f,
    )
