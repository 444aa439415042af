"""A null engine: it answers as an engine must, by a script and without a model.

With it the graph, the tools and everything around the model can be measured and tested alone:
`engine: {name: "pipeline.engines.scripted:ScriptedEngine", options: {...}}`. Answers depend on
the tokens of their own request alone. The model of the configuration gives the tokenizer.
"""

import json
import re
import threading
import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.checkpoint import check_location, load_config, weights_id
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.settings import Section
from pipeline.tokens import TokenCodec
from tools.base import ConfigError
from tools.calls import CLOSE

_VERSION = "1"
_LIKELY, _UNLIKELY = 0.25, 1e-4  # p of " ["
_ONE_IN = 16  # positions that are likely
_NATS = 2.0  # of every token after no call
_EXAMPLE = re.compile(rb"\[(\w+)\(")


class Script(Section):
    """How long it pretends to work, in seconds."""

    seconds_per_document: float = Field(default=0.0, ge=0.0)  # P, for each text and tool
    seconds_per_token: float = Field(default=0.0, ge=0.0)  # P, for each token of the text
    seconds_per_call: float = Field(default=0.0, ge=0.0)  # L, for each z


class ScriptedEngine:
    """An LMEngine that finds every sixteenth position likely and writes sums there.

    A sample is a call of the tool of the prompt, `Tool(3 + 4)`, with numbers that come from
    its seed. L(z) is 2 nats a token, less or more by what a hash of z says.
    """

    concurrency = 1
    kept_tokens = 0

    def __init__(self, info: EngineInfo, codec: TokenCodec, script: Script) -> None:
        self.info = info
        self._codec, self._script = codec, script
        self._used = threading.local()
        self._written = lru_cache(maxsize=4096)(self._tokens_of_call)
        self._tools = lru_cache(maxsize=64)(self._tool_of)

    @staticmethod
    def describe(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
        """What `info` will be. Raises ConfigError for an unknown option."""
        _script_of(engine)
        max_len, vocab_size = _sizes(model)
        return EngineInfo(
            name="scripted",
            version=_VERSION,
            device="cpu",
            dtype=model.dtype,
            max_len=max_len,
            vocab_size=vocab_size,
            weights_id=weights_id(model.path, model.revision),
        )

    @classmethod
    def load(cls, model: ModelConfig, engine: EngineConfig) -> "ScriptedEngine":
        """An engine with the tokenizer of `model`; its weights are not read."""
        codec = TokenCodec.load(model.path, model.revision)
        return cls(cls.describe(model, engine), codec, _script_of(engine))

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32] | None]:
        """For each request [n, A]: row i depends on token i and its place."""
        answers: list[NDArray[np.float32] | None] = []
        for request in requests:
            n = len(request.x_ids)
            self._work(self._script.seconds_per_document + n * self._script.seconds_per_token)
            self._count(EngineUsage(position_tokens=n, head_rows=n))
            likely_n = _mixed(request.x_ids, np.arange(n)) % _ONE_IN == 0
            logprobs_n = np.log(np.where(likely_n, _LIKELY, _UNLIKELY)).astype(np.float32)
            answers.append(np.repeat(logprobs_n[:, None], len(token_ids), axis=1))
        return answers

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        """For each request K lists of m samples, each of its own seed."""
        return [
            [[self._sample(request, int(seed), params) for seed in row] for row in request.seeds_Km]
            for request in requests
        ]

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32] | None]:
        """For each request [Q, W], NaN past the end of x."""
        answers: list[NDArray[np.float32] | None] = []
        for request in requests:
            if len(request.z_ids):
                self._work(self._script.seconds_per_call)
            places_QW = request.positions[:, None] + np.arange(width)
            nats = _NATS + _shift(request.z_ids)
            logprobs_QW = np.where(places_QW < len(request.x_ids), -nats, np.nan)
            self._count(EngineUsage(loss_tokens=len(request.x_ids), head_rows=places_QW.size))
            answers.append(logprobs_QW.astype(np.float32))
        return answers

    def usage(self) -> EngineUsage:
        used: EngineUsage = getattr(self._used, "total", EngineUsage())
        return used

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Nothing but another `info`: there are no weights here."""
        self.info = self.info._replace(weights_id=weights_id(path, revision))

    def _sample(self, request: SampleRequest, seed: int, params: SamplingParams) -> Sample:
        tool = self._tools(request.prompt_ids.tobytes())
        token_ids = self._written(tool, seed % 7, seed // 7 % 5)[: params.max_new_tokens]
        self._count(EngineUsage(sample_tokens=len(token_ids), head_rows=len(token_ids)))
        return Sample(token_ids=token_ids, ended=token_ids[-1] in params.stop_ids)

    def _tokens_of_call(self, tool: bytes, a: int, b: int) -> tuple[int, ...]:
        text = f"{tool.decode()}({a} + {b})"
        return tuple(self._codec.encode_pieces([text, CLOSE]).tolist())

    def _tool_of(self, prompt: bytes) -> bytes:
        """The tool that the first example of a prompt calls."""
        ids = np.frombuffer(prompt, dtype=np.int32)
        found = _EXAMPLE.search(b"".join(self._codec.token_bytes(ids)))
        return found.group(1) if found else b"Tool"

    def _work(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    def _count(self, done: EngineUsage) -> None:
        self._used.total = self.usage().plus(done)


def _sizes(model: ModelConfig) -> tuple[int, int]:
    """Context and vocabulary, without transformers where config.json says: it loads for seconds."""
    check_location(model.path)
    try:
        stated = json.loads((Path(model.path) / "config.json").read_bytes())
        context = stated.get("max_position_embeddings") or stated["n_positions"]
        return int(context), int(stated["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        config = load_config(model.path, model.revision)
        return config.context_length, config.vocab_size


def _script_of(engine: EngineConfig) -> Script:
    try:
        return Script.model_validate(engine.options)
    except ValidationError as error:
        wrong = "; ".join(f"{e['loc'][0]}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"engine {engine.name}: options.{wrong}") from None


def _mixed(ids_n: NDArray[np.int32], places_n: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of each token and its place."""
    mixed = ids_n.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed += places_n.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.asarray(mixed >> np.uint64(40))


def _shift(z_ids: NDArray[np.int32]) -> float:
    """Nats a token more (0.6) to less (-1.8) than without z; 0 for none."""
    return (1 - zlib.crc32(z_ids.tobytes()) % 5) * 0.6 if len(z_ids) else 0.0
