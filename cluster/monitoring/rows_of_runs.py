"""What becomes of documents, positions and calls: the upper half of the dashboard."""

from collections.abc import Sequence

from cluster.monitoring.panels import (
    SHARE,
    Kind,
    Panel,
    Query,
    Row,
    counted,
    quantiles,
    rate,
    series,
    share,
    so_far,
    total,
)
from pipeline import metrics as run
from pipeline.engines import metrics as lm

_TOOL = "{{tool}}"
_DONE, _PLANNED = total(series(run.DOCUMENTS_DONE)), total(series(run.DOCUMENTS_PLANNED))

_PROGRESS = [
    Panel(
        title="Done", unit=SHARE, kind=Kind.NUMBER, width=8,
        description="Committed documents, of those of the run.",
        queries=[Query(f"{_DONE} / {_PLANNED}")],
    ),
    Panel(
        title="Time left", unit="s", kind=Kind.NUMBER, width=8,
        description="At the rate of the last ten minutes, or of the last 32 commits where those "
        "took longer. It grows while nothing is committed. Known after the first commit.",
        queries=[Query(f"max({series(run.ETA_SECONDS)})")],
    ),
    Panel(
        title="Units in flight", unit="short", kind=Kind.NUMBER, width=8,
        description="Units that are begun and not committed: what a crash would repeat.",
        queries=[Query(total(series(lm.UNITS_IN_FLIGHT)))],
    ),
    Panel(
        title="Documents/s", unit="suffix: documents/s",
        description="Committed documents by what became of them: done, or why they were dropped. "
        "Parts of a long document count one each.",
        queries=[Query(total(rate(run.DOCUMENTS), "outcome"), "{{outcome}}")],
    ),
    Panel(
        title="Documents", unit="short",
        description="Committed documents, and those of the run.",
        queries=[Query(_DONE, "done"), Query(_PLANNED, "planned")],
    ),
    Panel(
        title="Units", unit="short",
        description="Committed units, and those of the run.",
        queries=[
            Query(total(series(run.UNITS_DONE)), "done"),
            Query(total(series(run.UNITS_PLANNED)), "planned"),
        ],
    ),
]  # fmt: skip

_FUNNEL = [
    Panel(
        title="Positions/s", unit="suffix: positions/s",
        description="Where the model may call the tool: p_i above tau_s, of these the top k.",
        queries=[Query(total(rate(run.POSITIONS), "tool"), _TOOL)],
    ),
    Panel(
        title="Candidates/s", unit="suffix: calls/s",
        description="Distinct sampled calls at a position.",
        queries=[Query(total(rate(run.CANDIDATES), "tool"), _TOOL)],
    ),
    Panel(
        title="Executed/s", unit="suffix: calls/s",
        description="Candidates that were put to their tool.",
        queries=[Query(total(rate(run.EXECUTED), "tool"), _TOOL)],
    ),
    Panel(
        title="Kept/s", unit="suffix: calls/s",
        description="Calls with a gain of at least the tau_f of their tool.",
        queries=[Query(total(rate(run.KEPT), "tool"), _TOOL)],
    ),
    Panel(
        title="Kept share", unit=SHARE,
        description="Kept calls, of the candidates of their tool.",
        queries=[Query(share(rate(run.KEPT), rate(run.CANDIDATES), "tool"), _TOOL)],
    ),
    Panel(
        title="Kept calls per document", unit="short",
        description="Kept calls of a tool for each committed document, or part of a long one.",
        queries=[Query(
            f"{counted(rate(run.KEPT), rate(run.CANDIDATES), 'tool')}"
            f" / on () group_left {total(rate(run.DOCUMENTS))}",
            _TOOL,
        )],
    ),
]  # fmt: skip

_GAINS = [
    Panel(
        title="Gains", unit="suffix: calls", kind=Kind.HEATMAP, width=12,
        description="Scored calls in the window by their gain in nats. A gain of which only an "
        "upper bound is known, as it is below every tau_f of interest, counts as that bound.",
        queries=[Query(total(f"increase({series(run.GAINS)}[$window])", "le"), "{{le}}")],
    ),
    Panel(
        title="Gain quantiles", unit="suffix: nats", width=12,
        description="The gain that half, 90 % and 99 % of the scored calls of a tool do not "
        "exceed, between the edges of the heatmap's rows.",
        queries=quantiles(run.GAINS, 0.5, 0.9, 0.99),
    ),
]  # fmt: skip

# What is rare is shown as a count.
_FAILURES = [
    Panel(
        title="Calls without a result", unit="suffix: calls",
        description="Executed calls so far whose status is not ok.",
        queries=[Query(
            so_far(series(run.EXECUTED, "status!='ok'"), "tool, status"), "{{tool}}: {{status}}"
        )],
    ),
    Panel(
        title="Documents dropped or failed", unit="suffix: documents",
        description="So far: dropped, by reason; set apart as processes die of them, by stage; "
        "failed, which `annotate --only-failed` tries again.",
        queries=[
            Query(so_far(series(run.DOCUMENTS, "outcome!='done'"), "outcome"), "{{outcome}}"),
            Query(total(series(lm.ISOLATED), "stage"), "set apart in {{stage}}"),
            Query(so_far(series(run.FAILED_DOCUMENTS)), "failed"),
        ],
    ),
    Panel(
        title="Lost replicas", unit="short",
        description="So far: replicas that died at work or could not be reached, by pool, and "
        "units that were asked again for it, by stage.",
        queries=[
            Query(total(series(lm.LOST_REPLICAS), "pool"), "lost of {{pool}}"),
            Query(total(series(lm.ASKED_AGAIN), "stage"), "asked again in {{stage}}"),
        ],
    ),
]  # fmt: skip

ROWS: Sequence[Row] = (
    Row("Progress", _PROGRESS),
    Row("From positions to kept calls", _FUNNEL),
    Row("Gains", _GAINS),
    Row("Failures", _FAILURES),
)
