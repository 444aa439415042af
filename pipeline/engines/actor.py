"""A replica of M in a process of its own: annotates units, and answers replicas of other pools."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import ray
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put

from pipeline.config import ModelConfig
from pipeline.engine_config import Kind, PoolPlan
from pipeline.engines.asking import PoolClient
from pipeline.engines.gate import Gate, Turn
from pipeline.engines.gone import EngineDied
from pipeline.engines.in_flight import Request, request_tokens, unit_tokens
from pipeline.engines.lives import LIFE
from pipeline.engines.load import load_engine
from pipeline.engines.metrics import ReplicaMetrics
from pipeline.engines.protocol import (
    EngineInfo,
    EngineUsage,
    LMEngine,
    LossRequest,
    PositionRequest,
)
from pipeline.engines.routed import Route, RoutedEngine
from pipeline.engines.unbroken import Once, to_its_end
from pipeline.method import Method
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace, usage_between

Annotate = Callable[[pa.Table, Method, TokenCodec, LMEngine], pa.Table]
Answer = TypeVar("Answer")

_METRICS_EVERY_S = 5.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """The replicas of another pool, and the dispatcher that says which of them is free."""

    pool: str
    replicas: Sequence[Any]
    dispatcher: str  # its name: it is started after the replicas it knows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """What a replica has once its weights are there."""

    codec: TokenCodec
    engine: RoutedEngine
    remark: str | None
    gate: Gate
    threads: ThreadPoolExecutor
    ticking: asyncio.Task[None]  # of the metrics; a task that nobody holds may be collected


class LMHost:
    """One replica of M with its tokenizer. It works on as many units at once as its engine bears.

    The engine runs in threads, so that what arrives meanwhile is put in line (gate.py). The
    first call loads: what fails in a call comes back from Ray as the exception it is, what
    fails in a constructor as text.
    """

    def __init__(
        self,
        model: ModelConfig,
        pool: PoolPlan,
        elsewhere: Mapping[Kind, Elsewhere] | None = None,
    ) -> None:
        """`elsewhere` are the other pools that answer P and L for it."""
        self._model = model
        self._pool = pool
        self._elsewhere = elsewhere or {}
        self._in_service = False
        self._loaded = Once(self._load)

    async def has_a_place(self) -> bool:
        """True at once, before anything is loaded; no answer while it has none."""
        return True

    async def info(self) -> EngineInfo:
        return (await self._loaded.get()).engine.info

    async def remark(self) -> str | None:
        """What its engine would say to the user about itself, in one line."""
        return (await self._loaded.get()).remark

    async def ready(self) -> str | None:
        """What names this process among those that Ray starts for it; None until it has loaded."""
        return LIFE if self._in_service else None

    async def sample_unit(self, unit: pa.Table, method: Method, alone: bool = False) -> pa.Table:
        """P and S: the unit with its positions and calls.

        `alone`: what other pools do for it they do beside nothing else, too.
        """
        return await self._annotated(Turn.SAMPLE_UNIT, "sample", sample_calls, unit, method, alone)

    async def score_unit(self, unit: pa.Table, method: Method, alone: bool = False) -> pa.Table:
        """L: the unit with the losses of its calls."""
        return await self._annotated(Turn.SCORE_UNIT, "score", score_calls, unit, method, alone)

    # What other pools ask: answered by this replica alone, so no two wait for each other.

    async def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> tuple[Any, EngineUsage]:
        """LMEngine.position_logprobs, and what it cost."""
        return await self._answered(
            Turn.POSITION, requests, lambda lm: lm.position_logprobs(requests, token_ids)
        )

    async def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> tuple[Any, EngineUsage]:
        """LMEngine.window_logprobs, and what it cost."""
        return await self._answered(
            Turn.LOSS, requests, lambda lm: lm.window_logprobs(requests, width)
        )

    async def load_weights(self, path: str, revision: str | None) -> EngineInfo:
        """What `info` says from now on: what runs ends before, what comes later waits.

        Raises:
            ConfigError: see LMEngine.load_weights.
        """
        loaded = await self._loaded.get()

        def reloaded() -> EngineInfo:
            loaded.engine.load_weights(path, revision)
            _remember(path, revision)
            return loaded.engine.info

        return await self._in_turn(Turn.RELOAD, 0, loaded, reloaded)

    async def _annotated(
        self,
        turn: Turn,
        stage: str,
        annotate: Annotate,
        unit: pa.Table,
        method: Method,
        alone: bool,
    ) -> pa.Table:
        loaded = await self._loaded.get()

        def annotated() -> pa.Table:
            started, before = time.perf_counter(), loaded.engine.usage()
            with loaded.engine.asking_alone(alone):
                rows = annotate(unit, method, loaded.codec, loaded.engine)
            tokens = usage_between(before, loaded.engine.usage())
            return add_trace(rows, stage, time.perf_counter() - started, tokens)

        tokens = 0
        if loaded.engine.concurrency > 1 and loaded.engine.kept_tokens:
            # What is larger is asked about in parts, see sample_calls.
            tokens = min(unit_tokens(unit, method, loaded.codec), loaded.engine.kept_tokens)
        return await self._in_turn(turn, tokens, loaded, annotated)

    async def _answered(
        self, turn: Turn, requests: Sequence[Request], ask: Callable[[LMEngine], Any]
    ) -> tuple[Any, EngineUsage]:
        loaded = await self._loaded.get()

        def answered() -> tuple[Any, EngineUsage]:
            before = loaded.engine.usage()
            answer = ask(loaded.engine)
            return answer, loaded.engine.usage().since(before)

        tokens = sum(map(request_tokens, requests))
        return await self._in_turn(turn, tokens, loaded, answered)

    async def _in_turn(
        self, turn: Turn, tokens: int, loaded: _Loaded, work: Callable[[], Answer]
    ) -> Answer:
        async with loaded.gate.turn(turn, tokens):
            loop = asyncio.get_running_loop()
            try:
                return await to_its_end(loop.run_in_executor(loaded.threads, work))
            except EngineDied as error:
                # What is left could only refuse; Ray starts a process that can answer.
                _logger.error("pool %s: %s; this process ends", self._pool.name, error)
                os._exit(1)

    async def _load(self) -> _Loaded:
        model = _model_of_this_actor(self._model)
        codec = await asyncio.to_thread(TokenCodec.load, model.path, model.revision)
        own = await asyncio.to_thread(load_engine, model, self._pool.engine)
        routes = {kind: await self._route(kind) for kind in self._elsewhere}
        loaded = self._with_engine(codec, own, routes)
        self._in_service = True
        return loaded

    async def _route(self, kind: Kind) -> Route:
        other = self._elsewhere[kind]
        dispatcher = await asyncio.to_thread(ray.get_actor, other.dispatcher)
        client = PoolClient(other.pool, other.replicas, dispatcher)
        turn = Turn.POSITION if kind == "position" else Turn.LOSS
        return Route(client, turn, asyncio.get_running_loop())

    def _with_engine(
        self, codec: TokenCodec, own: LMEngine, routes: Mapping[Kind, Route]
    ) -> _Loaded:
        metrics = ReplicaMetrics(own.info.name, self._pool.name)
        engine = RoutedEngine(
            own,
            position=routes.get("position"),
            loss=routes.get("loss"),
            count=metrics.count,
        )
        gate = Gate(
            at_once=engine.concurrency,
            max_tokens=engine.kept_tokens * engine.concurrency if engine.concurrency > 1 else 0,
            changed=lambda: metrics.show(gate),
        )
        return _Loaded(
            codec=codec,
            engine=engine,
            remark=getattr(own, "remark", None),  # vLLM's
            gate=gate,
            threads=ThreadPoolExecutor(max_workers=engine.concurrency),
            ticking=asyncio.create_task(_tick(lambda: metrics.show(gate))),
        )


async def _tick(show: Callable[[], None]) -> None:
    while True:
        show()
        await asyncio.sleep(_METRICS_EVERY_S)


# A replica that Ray restarts is made with the arguments of the first; what it loaded later is
# found under its id, which stays.


def _key() -> str:
    return f"toolformer_weights:{ray.get_runtime_context().get_actor_id()}"


def _remember(path: str, revision: str | None) -> None:
    _internal_kv_put(_key(), json.dumps([path, revision]))


def _model_of_this_actor(model: ModelConfig) -> ModelConfig:
    """`model` with the weights that were loaded last; as it is where Ray does not run."""
    remembered = _internal_kv_get(_key()) if ray.is_initialized() else None
    if remembered is None:
        return model
    path, revision = json.loads(remembered)
    return model.model_copy(update={"path": path, "revision": revision})


# num_cpus=0: Ray Data does not see actors outside its graph and would wait for their CPUs.
# Restarts need no bound: what kills a process again and again is set apart, see isolation.py. Nor
# does Ray repeat a call: who asked hears that the replica is lost, and asks another.
LMActor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0)(LMHost)
