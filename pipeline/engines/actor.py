"""A language model in a process of its own: samples calls for a unit, and scores them."""

import time
from collections.abc import Callable
from functools import cached_property

import pyarrow as pa
import ray

from pipeline.config import EngineConfig, ModelConfig
from pipeline.engines.load import load_engine
from pipeline.engines.protocol import EngineInfo, LMEngine
from pipeline.method import Method
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace, usage_between

Annotate = Callable[[pa.Table, Method, TokenCodec, LMEngine], pa.Table]


class LMHost:
    """One replica of M with its tokenizer. It works on one unit at a time.

    The first call loads: what fails in a call comes back from Ray as the exception it is, what
    fails in a constructor as text.
    """

    def __init__(self, model: ModelConfig, engine: EngineConfig) -> None:
        self._model = model
        self._engine_config = engine

    @cached_property
    def _codec(self) -> TokenCodec:
        return TokenCodec.load(self._model.path, revision=self._model.revision)

    @cached_property
    def _engine(self) -> LMEngine:
        return load_engine(self._model, self._engine_config)

    def info(self) -> EngineInfo:
        return self._engine.info

    def sample_unit(self, unit: pa.Table, method: Method) -> pa.Table:
        """P and S: the unit with its positions and calls."""
        return self._traced("sample", sample_calls, unit, method)

    def score_unit(self, unit: pa.Table, method: Method) -> pa.Table:
        """L: the unit with the losses of its calls."""
        return self._traced("score", score_calls, unit, method)

    def _traced(self, stage: str, annotate: Annotate, unit: pa.Table, method: Method) -> pa.Table:
        started, before = time.perf_counter(), self._engine.usage()
        annotated = annotate(unit, method, self._codec, self._engine)
        tokens = usage_between(before, self._engine.usage())
        return add_trace(annotated, stage, time.perf_counter() - started, tokens)


# num_cpus=0: Ray Data does not see actors outside its graph and would wait for their CPUs.
LMActor = ray.remote(num_cpus=0, max_restarts=3, max_task_retries=1)(LMHost)
