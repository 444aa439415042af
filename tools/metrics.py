"""What Prometheus sees of the tools: metrics of the processes that ask and of those that serve.

Ray exports them on every node as `ray_<name>` and adds the node and the worker. What a process
that is killed counted last is lost, as are the counts of a node: they show rates, the done-marks
of a run hold the totals. Gauges of a process end with it.
"""

from functools import cache

import ray
from ray.util.metrics import Counter, Histogram

from tools.lasting_gauge import LastingGauge
from tools.usage import ToolUsage

REQUESTS = "toolformer_tool_requests_total"
ANSWERS = "toolformer_tool_answers_total"
RETRIES = "toolformer_tool_retries_total"
RESTARTS = "toolformer_tool_restarts_total"
WAITING = "toolformer_tool_waiting_requests"
BATCH_SECONDS = "toolformer_tool_batch_seconds"
BATCH_SIZE = "toolformer_tool_batch_size"
RSS_BYTES = "toolformer_tool_rss_bytes"

_SECONDS = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]
_SIZES = [1.0, 2, 4, 8, 16, 32, 64, 128, 256]


class _Metrics:
    """All of them; made once in a process, where Ray runs."""

    def __init__(self) -> None:
        tool = ("tool",)
        self.requests = Counter(REQUESTS, "Answered requests.", (*tool, "status"))
        self.answers = Counter(ANSWERS, "Answered requests, by what answered.", (*tool, "source"))
        self.retries = Counter(RETRIES, "Requests asked again.", tool)
        self.restarts = Counter(RESTARTS, "Processes that died or were ended.", tool)
        self.waiting = LastingGauge(WAITING, "Requests that wait for a free process.", tool)
        self.batch_seconds = Histogram(BATCH_SECONDS, "Time of a batch.", _SECONDS, tool)
        self.batch_size = Histogram(BATCH_SIZE, "Requests in a batch.", _SIZES, tool)
        self.rss = LastingGauge(RSS_BYTES, "Memory of the process that serves the tool.", tool)


_metrics = cache(_Metrics)


def record_usage(tool: str, usage: ToolUsage) -> None:
    """Counts in what one unit used."""
    if not ray.is_initialized():
        return
    metrics, tags = _metrics(), {"tool": tool}
    for status, count in usage.statuses.items():
        metrics.requests.inc(count, tags | {"status": status})
    by_tool = usage.requests - usage.from_cache
    sources = {
        "memory": usage.from_memory, "disk": usage.from_disk, "shared": usage.shared,
        "tool": by_tool,
    }  # fmt: skip
    for source, count in sources.items():
        if count:
            metrics.answers.inc(count, tags | {"source": source})
    if usage.retries:
        metrics.retries.inc(usage.retries, tags)
    if usage.restarts:
        metrics.restarts.inc(usage.restarts, tags)


def record_waiting(tool: str, requests: int) -> None:
    """How many requests wait for a free process just now."""
    if ray.is_initialized():
        _metrics().waiting.set(requests, {"tool": tool})


def record_batch(tool: str, size: int, seconds: float, rss_bytes: int) -> None:
    """Counts in one batch, in the process that answered it."""
    if ray.is_initialized():
        metrics, tags = _metrics(), {"tool": tool}
        metrics.batch_seconds.observe(seconds, tags)
        metrics.batch_size.observe(size, tags)
        metrics.rss.set(rss_bytes, tags)
