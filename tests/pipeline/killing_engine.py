"""The null engine on record, that waits or dies at chosen documents: see survival/moments.py.

`engine: {name: "tests.pipeline.killing_engine:KillingEngine", options: {directory: ...}}`; other
options are the null engine's. Its calls carry the number of their document, so that a tool can
tell for whom it is asked: "Note 17. ..." gets Calculator(17 + 3).
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.protocol import (
    EngineInfo,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)
from pipeline.engines.scripted import ScriptedEngine
from pipeline.tokens import TokenCodec
from tests.pipeline.survival.moments import Moments


class KillingEngine:
    """An LMEngine that answers as ScriptedEngine does, where it does not die."""

    concurrency = 1
    kept_tokens = 0

    def __init__(self, scripted: ScriptedEngine, codec: TokenCodec, directory: Path) -> None:
        self._scripted, self._codec = scripted, codec
        self._moments = Moments(directory)
        self.info = scripted.info
        self.usage, self.load_weights = scripted.usage, scripted.load_weights

    @staticmethod
    def describe(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
        return ScriptedEngine.describe(model, _without_directory(engine))

    @classmethod
    def load(cls, model: ModelConfig, engine: EngineConfig) -> "KillingEngine":
        scripted = ScriptedEngine.load(model, _without_directory(engine))
        codec = TokenCodec.load(model.path, model.revision)
        return cls(scripted, codec, Path(engine.options["directory"]))

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32] | None]:
        for request in requests:
            self._asked("position", request.x_ids, request.prompt_ids.tobytes())
        return self._scripted.position_logprobs(requests, token_ids)

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        for request in requests:
            self._asked("sample", request.x_ids, request.prompt_ids.tobytes())
        return [
            [
                [self._call(request, int(seed), params) for seed in seeds_m]
                for seeds_m in request.seeds_Km
            ]
            for request in requests
        ]

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32] | None]:
        for request in requests:
            self._asked("loss", request.x_ids, request.z_ids.tobytes())
        return self._scripted.window_logprobs(requests, width)

    def _asked(self, kind: str, x_ids: NDArray[np.int32], rest: bytes) -> None:
        text = self._text(x_ids)
        self._moments.wrote_down(kind, text, rest)
        self._moments.at(kind, text)

    def _call(self, request: SampleRequest, seed: int, params: SamplingParams) -> Sample:
        number = re.search(r"Note (\d+)", self._text(request.x_ids))
        written = f"Calculator({number[1] if number else 0} + {seed % 7})]"
        token_ids = tuple(self._codec.encode_pieces([written]).tolist())[: params.max_new_tokens]
        return Sample(token_ids=token_ids, ended=token_ids[-1] in params.stop_ids)

    def _text(self, x_ids: NDArray[np.int32]) -> str:
        return b"".join(self._codec.token_bytes(x_ids)).decode()


def _without_directory(engine: EngineConfig) -> EngineConfig:
    options = {name: value for name, value in engine.options.items() if name != "directory"}
    return engine.model_copy(update={"options": options})
