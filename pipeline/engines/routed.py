"""An engine that samples here and has P or L answered by the replicas of other pools."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from ray.exceptions import RayTaskError

from pipeline.engines.asking import PoolClient
from pipeline.engines.gate import Turn
from pipeline.engines.protocol import (
    EngineUsage,
    LMEngine,
    LossRequest,
    PositionRequest,
    Sample,
    SampleRequest,
    SamplingParams,
)

Answer = TypeVar("Answer")
Rows = Sequence[NDArray[np.float32] | None]


class Route:
    """The replicas of another pool, for the threads of a process whose loop is `loop`."""

    def __init__(self, client: PoolClient, turn: Turn, loop: asyncio.AbstractEventLoop) -> None:
        self._client, self._turn, self._loop = client, turn, loop

    def ask(self, method: str, *arguments: Any, alone: bool) -> Any:
        """What a replica's method returns; blocks the thread.

        Raises:
            ReplicaLost: the replica was lost while it was at work on this.
            Exception: what the method raised.
        """
        asked = self._client.ask(self._turn, method, *arguments, alone=alone)
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        except RayTaskError as error:
            raise (error.cause or error) from None


class RoutedEngine:
    """The LMEngine of a replica: its own, but for the kinds that have a route elsewhere.

    `usage` sums what both did; what its own engine did in each call is told to `count`.
    """

    def __init__(
        self,
        own: LMEngine,
        *,
        position: Route | None = None,
        loss: Route | None = None,
        count: Callable[[EngineUsage], None] = lambda done: None,
    ) -> None:
        self._own, self._position, self._loss, self._count = own, position, loss, count
        self._used = threading.local()  # by each thread, see LMEngine.usage
        self.info = own.info
        self.kept_tokens, self.concurrency = own.kept_tokens, own.concurrency
        self._own_turn: AbstractContextManager[Any] = nullcontext()
        if position is not None:
            # S finds nothing of P here, and is idle while a unit waits for P: one unit more for
            # each, that take turns.
            self.kept_tokens, self.concurrency = 0, 2 * own.concurrency
            self._own_turn = threading.BoundedSemaphore(own.concurrency)

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> Rows:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        if self._position is not None:
            return self._asked(self._position, "position_logprobs", requests, token_ids)
        return self._answered(lambda: self._own.position_logprobs(requests, token_ids))

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> Sequence[list[list[Sample]] | None]:
        """For each request K lists of m samples."""
        return self._answered(lambda: self._own.sample(requests, params))

    def window_logprobs(self, requests: Sequence[LossRequest], width: int) -> Rows:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x."""
        if self._loss is not None:
            return self._asked(self._loss, "window_logprobs", requests, width)
        return self._answered(lambda: self._own.window_logprobs(requests, width))

    def usage(self) -> EngineUsage:
        used: EngineUsage = getattr(self._used, "total", EngineUsage())
        return used

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Go on with other weights here; other pools load theirs themselves."""
        self._own.load_weights(path, revision)
        self.info = self._own.info

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        with self._own_turn:
            before = self._own.usage()
            answer = ask()
            done = self._own.usage().since(before)
        self._count(done)
        self._used.total = self.usage().plus(done)
        return answer

    @contextmanager
    def asking_alone(self, alone: bool) -> Iterator[None]:
        """Whether replicas of other pools work for this thread on nothing else meanwhile."""
        self._used.alone = alone
        try:
            yield
        finally:
            self._used.alone = False

    def _asked(self, route: Route, method: str, requests: Sequence[Any], argument: Any) -> Rows:
        if not requests:
            return []
        answers: Rows
        alone = getattr(self._used, "alone", False)
        answers, done = route.ask(method, list(requests), argument, alone=alone)
        self._used.total = self.usage().plus(done)
        return answers
