"""An engine with a meter: the work and the seconds of every kind of request."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.measuring import Seconds, timed
from pipeline.bench.work import KINDS, Work, loss_pairs, position_pairs, sample_pairs
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LMEngine,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)

_Answer = TypeVar("_Answer")


class MeteredEngine:
    """The LMEngine it is given. `work` and `seconds` add up by kind until `reset`."""

    def __init__(self, engine: LMEngine) -> None:
        self._engine = engine
        self.info: EngineInfo = engine.info
        self.kept_tokens, self.concurrency = engine.kept_tokens, engine.concurrency
        self.reset()

    def reset(self) -> None:
        self.work = {kind: Work() for kind in KINDS}
        self.seconds = {kind: Seconds() for kind in KINDS}

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> Sequence[NDArray[np.float32] | None]:
        return self._metered(
            "position",
            lambda: self._engine.position_logprobs(requests, token_ids),
            lambda _, tokens: position_pairs(requests, tokens),
        )

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> Sequence[list[list[Sample]] | None]:
        return self._metered(
            "sample",
            lambda: self._engine.sample(requests, params),
            lambda samples, tokens: sample_pairs(requests, samples, tokens),
        )

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> Sequence[NDArray[np.float32] | None]:
        return self._metered(
            "loss",
            lambda: self._engine.window_logprobs(requests, width),
            lambda _, tokens: loss_pairs(requests, width, tokens),
        )

    def usage(self) -> EngineUsage:
        return self._engine.usage()

    def load_weights(self, path: str, revision: str | None = None) -> None:
        self._engine.load_weights(path, revision)

    def _metered(
        self, kind: str, ask: Callable[[], _Answer], pairs: Callable[[_Answer, int], float]
    ) -> _Answer:
        before = self._engine.usage()
        with timed(self.info.device) as seconds:
            answer = ask()
        done = self._engine.usage().since(before)
        tokens = sum(getattr(done, f"{k}_tokens") for k in KINDS)
        self.seconds[kind] += seconds
        self.work[kind] += Work(
            tokens=tokens,
            padding=done.padding_tokens,
            rows=done.head_rows,
            pairs=pairs(answer, tokens - done.padding_tokens),
        )
        return answer
