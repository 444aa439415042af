"""What the stages measure about a unit, carried beside its rows to the done-mark."""

import json
import time
from typing import Any

import pyarrow as pa

from pipeline.engines.protocol import EngineUsage


def add_trace(
    unit: pa.Table,
    stage: str,
    seconds: float,
    tokens: dict[str, int] | None = None,
    tools: dict[str, dict[str, Any]] | None = None,
) -> pa.Table:
    """The unit with the seconds of `stage`, and what it cost, added to its trace.

    The first to add something says when work on the unit began.
    `tokens` are counts by kind, `tools` the fields of a tools.usage.ToolUsage by tool.
    """
    trace = read_trace(unit)
    trace["begun_at"] = trace["begun_at"] or round(time.time() - seconds, 3)
    trace["seconds"][stage] = round(trace["seconds"].get(stage, 0.0) + seconds, 6)
    for kind, count in (tokens or {}).items():
        trace["tokens"][kind] = trace["tokens"].get(kind, 0) + count
    trace["tools"] |= tools or {}
    column = pa.array([json.dumps(trace)] * unit.num_rows, pa.string())
    field = pa.field("trace", pa.string(), nullable=False)
    return unit.set_column(unit.schema.get_field_index("trace"), field, column)


def read_trace(unit: pa.Table) -> dict[str, Any]:
    """What is known of the unit so far: fields of its done-mark.

    {"begun_at": Unix time, "seconds": {stage: s}, "tokens": {kind: n}, "tools": {tool: usage}}.
    """
    trace: dict[str, Any] = json.loads(unit.column("trace")[0].as_py())
    parts = {kind: trace.get(kind, {}) for kind in ("seconds", "tokens", "tools")}
    return {"begun_at": trace.get("begun_at", 0.0), **parts}


def usage_between(before: EngineUsage, after: EngineUsage) -> dict[str, int]:
    """What an engine did between two readings, by kind."""
    return {kind: count for kind, count in after.since(before)._asdict().items() if count}
