"""What Prometheus sees of the language models: what they run, what waits for them, idleness.

Ray exports the metrics on every node as `ray_<name>` and adds the node and the worker. What a
process that is killed counted last is lost, as are the counts of a node: they show rates, the
done-marks of a run hold the totals. Gauges of a process end with it.
"""

import time
from functools import cache

import ray
from ray.util.metrics import Counter

from pipeline.engines.gate import Gate, Turn
from pipeline.engines.protocol import EngineUsage
from tools.lasting_gauge import LastingGauge

TOKENS = "toolformer_lm_tokens_total"
PADDING = "toolformer_lm_padding_tokens_total"
HEAD_ROWS = "toolformer_lm_head_rows_total"
WAITING = "toolformer_lm_waiting"
RUNNING = "toolformer_lm_running"
IDLE_SECONDS = "toolformer_lm_idle_seconds_total"
WAITING_FOR_REPLICA = "toolformer_lm_waiting_for_replica"
UNITS_IN_FLIGHT = "toolformer_units_in_flight"
LOST_REPLICAS = "toolformer_lm_lost_replicas_total"
ASKED_AGAIN = "toolformer_units_asked_again_total"
ISOLATED = "toolformer_documents_isolated_total"

_KINDS = ("position", "sample", "loss")


class _Metrics:
    """All of them; made once in a process, where Ray runs."""

    def __init__(self) -> None:
        tags = ("engine", "pool")
        self.tokens = Counter(TOKENS, "Tokens through the body.", (*tags, "kind"))
        self.padding = Counter(PADDING, "Those of them that were padding.", tags)
        self.head_rows = Counter(HEAD_ROWS, "Rows through the LM head.", tags)
        self.waiting = LastingGauge(WAITING, "Units and raw requests that wait.", (*tags, "stage"))
        self.running = LastingGauge(RUNNING, "Units and raw requests that it is at work on.", tags)
        self.idle = Counter(IDLE_SECONDS, "Seconds with nothing to do.", tags)


_metrics = cache(_Metrics)


class _StageMetrics:
    """What waits for a replica, and what processes that die cost; of dispatcher and stages."""

    def __init__(self) -> None:
        self.waiting = LastingGauge(
            WAITING_FOR_REPLICA, "Units and raw requests that wait.", ("pool",)
        )
        self.in_flight = LastingGauge(UNITS_IN_FLIGHT, "Units that are begun and not committed.")
        self.lost = Counter(LOST_REPLICAS, "Replicas that died at work, or got lost.", ("pool",))
        self.again = Counter(ASKED_AGAIN, "Units asked again, as a replica was lost.", ("stage",))
        self.isolated = Counter(ISOLATED, "Documents dropped: they kill processes.", ("stage",))


_stage_metrics = cache(_StageMetrics)


def show_waiting(pool: str, number: int) -> None:
    """How many wait for a replica of a pool. Like those below, nothing where Ray does not run."""
    if ray.is_initialized():
        _stage_metrics().waiting.set(number, {"pool": pool})


def show_in_flight(number: int) -> None:
    """How many units are begun and not committed."""
    if ray.is_initialized():
        _stage_metrics().in_flight.set(number)


def count_lost_replica(pool: str) -> None:
    """Counts in a replica that is gone."""
    if ray.is_initialized():
        _stage_metrics().lost.inc(1, {"pool": pool})


def count_asked_again(stage: str) -> None:
    if ray.is_initialized():
        _stage_metrics().again.inc(1, {"stage": stage})


def count_isolated(stage: str, documents: int) -> None:
    if documents and ray.is_initialized():
        _stage_metrics().isolated.inc(documents, {"stage": stage})


class ReplicaMetrics:
    """What one replica exports. Nothing where Ray does not run."""

    def __init__(self, engine: str, pool: str) -> None:
        self._tags = {"engine": engine, "pool": pool}
        self._idle_since: float | None = time.monotonic()  # None: at work

    def count(self, done: EngineUsage) -> None:
        """Counts in what the model did for one call."""
        if not ray.is_initialized():
            return
        metrics = _metrics()
        for kind in _KINDS:
            tokens = getattr(done, f"{kind}_tokens")
            if tokens:
                metrics.tokens.inc(tokens, self._tags | {"kind": kind})
        if done.padding_tokens:
            metrics.padding.inc(done.padding_tokens, self._tags)
        if done.head_rows:
            metrics.head_rows.inc(done.head_rows, self._tags)

    def show(self, gate: Gate) -> None:
        """What waits and runs just now, and for how long nothing did."""
        if not ray.is_initialized():
            return
        metrics, now = _metrics(), time.monotonic()
        for turn in Turn:
            waiting = gate.waiting(turn)
            metrics.waiting.set(waiting, self._tags | {"stage": turn.name.lower()})
        metrics.running.set(gate.running, self._tags)
        if self._idle_since is not None and now > self._idle_since:
            metrics.idle.inc(now - self._idle_since, self._tags)
        self._idle_since = None if gate.running else now
