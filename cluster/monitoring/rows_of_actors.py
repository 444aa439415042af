"""How language-model replicas and tools do: the lower half of the dashboard."""

from collections.abc import Sequence

from cluster.monitoring.panels import (
    SHARE,
    Panel,
    Query,
    Row,
    quantiles,
    rate,
    series,
    share,
    total,
)
from pipeline.engines import metrics as lm
from tools import metrics as tool

_TOOL, _POOL = "{{tool}}", "{{pool}}"
_REPLICAS = f"count by (pool) ({series(lm.RUNNING)})"
_ASKED = rate(tool.ANSWERS, "source='tool'")

_ENGINES = [
    Panel(
        title="Tokens/s", unit="si: tokens/s",
        description="Tokens through the body by what is asked for: p_i, samples or losses. Those "
        "of padding are among them.",
        queries=[Query(total(rate(lm.TOKENS), "pool, kind"), "{{pool}}: {{kind}}")],
    ),
    Panel(
        title="Padding", unit=SHARE,
        description="Of the tokens through the body.",
        queries=[Query(share(rate(lm.PADDING), rate(lm.TOKENS), "pool"), _POOL)],
    ),
    Panel(
        title="Idle", unit=SHARE,
        description="Time with nothing to do, of the time of all replicas of a pool.",
        queries=[Query(f"{total(rate(lm.IDLE_SECONDS), 'pool')} / {_REPLICAS}", _POOL)],
    ),
    Panel(
        title="Queue", unit="short",
        description="Units, and requests of other pools, that wait for a replica to be free, that "
        "a replica has and does not work on yet (by stage), and that one is at work on.",
        queries=[
            Query(total(series(lm.WAITING_FOR_REPLICA), "pool"), "for a replica of {{pool}}"),
            Query(total(series(lm.WAITING), "pool, stage"), "in {{pool}}: {{stage}}"),
            Query(total(series(lm.RUNNING), "pool"), "at work in {{pool}}"),
        ],
    ),
    Panel(
        title="Replicas", unit="short",
        description="Those that have loaded their weights and live.",
        queries=[Query(_REPLICAS, _POOL)],
    ),
    Panel(
        title="Rows of the LM head/s", unit="si: rows/s",
        description="Tokens whose logits were computed.",
        queries=[Query(total(rate(lm.HEAD_ROWS), "pool"), _POOL)],
    ),
]  # fmt: skip

_TOOLS = [
    Panel(
        title="Time of a batch", unit="s", width=12,
        description="The time in the tool that half, 95 % and 99 % of its batches do not exceed.",
        queries=quantiles(f"{tool.BATCH_SECONDS}_bucket", 0.5, 0.95, 0.99),
    ),
    Panel(
        title="Answers without the tool", unit=SHARE, width=12,
        description="Of the requests: known from memory or disk, or being asked already.",
        queries=[Query(f"1 - {share(_ASKED, rate(tool.ANSWERS), 'tool')}", _TOOL)],
    ),
    Panel(
        title="Requests/s", unit="suffix: requests/s", width=6,
        description="Answered requests; equal ones of a unit are one.",
        queries=[Query(total(rate(tool.REQUESTS), "tool, status"), "{{tool}}: {{status}}")],
    ),
    Panel(
        title="Waiting requests", unit="short", width=6,
        description="Requests that wait for a free process of their tool.",
        queries=[Query(total(series(tool.WAITING), "tool"), _TOOL)],
    ),
    Panel(
        title="Retries and restarts", unit="short", width=6,
        description="So far: requests asked again, and processes that died or were ended as they "
        "hung.",
        queries=[
            Query(total(series(tool.RETRIES), "tool"), "{{tool}}: retries"),
            Query(total(series(tool.RESTARTS), "tool"), "{{tool}}: restarts"),
        ],
    ),
    Panel(
        title="Memory", unit="bytes", width=6,
        description="Resident set of the largest process that serves the tool.",
        queries=[Query(f"max by (tool) ({series(tool.RSS_BYTES)})", _TOOL)],
    ),
]  # fmt: skip

ROWS: Sequence[Row] = (Row("Language models", _ENGINES), Row("Tools", _TOOLS))
