"""report/index.html: one file, no network, readable in light, dark and at phone width."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from pipeline.config import RunConfig
from pipeline.report.calls import CallFilter, CallQuery, ShownCall, find_calls
from pipeline.report.plots import gain_histogram_svg
from pipeline.report.stats import Stats
from pipeline.report.tool_stats import ToolStats
from tools.atomic import write_text_atomically
from tools.calls import ARROW, CLOSE, OPEN
from tools.places import Place

_SHOWN_CALLS = 8  # of each tool, best and worst
_CONTEXT = 160  # characters on each side of a call
_TEMPLATE = "index.html.j2"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One bar of a tool's funnel."""

    name: str
    count: int
    share: float  # of the longest bar, in percent
    note: str


def write_report(
    directory: Place,
    stats: Stats,
    config: RunConfig,
    unit_files: Sequence[Place],
    *,
    build: dict[str, Any] | None = None,
) -> Place:
    """Writes stats.json and index.html into `directory`; returns the path of the page.

    `build` is the content of build.json, where the run has been built.

    Raises:
        InputError: a unit cannot be read.
        OutputError: the report cannot be written.
    """
    write_text_atomically(
        directory / "stats.json", json.dumps(stats.as_json(), indent=2, allow_nan=False) + "\n"
    )
    page = directory / "index.html"
    write_text_atomically(page, render(stats, config, unit_files, build=build))
    return page


def render(
    stats: Stats,
    config: RunConfig,
    unit_files: Sequence[Place],
    *,
    build: dict[str, Any] | None = None,
) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment.get_template(_TEMPLATE).render(
        stats=stats,
        config=config,
        build=build,
        tools=list(_tool_views(stats, config, unit_files)),
        totals={
            field: sum(getattr(tool, field) for tool in stats.tools.values())
            for field in ("positions", "candidates", "executed", "kept")
        },
        markers={"open": OPEN, "arrow": ARROW, "close": CLOSE},
    )


def _tool_views(
    stats: Stats, config: RunConfig, unit_files: Sequence[Place]
) -> Iterator[dict[str, Any]]:
    queries = [
        CallQuery(where=CallFilter(tool=name, scored=True), limit=_SHOWN_CALLS, lowest=lowest)
        for name in stats.tools
        for lowest in (False, True)
    ]
    tau_f = {name: tool.tau_f for name, tool in config.tools.items()}
    answers = find_calls(unit_files, tau_f, queries)
    for (name, tool), top, bottom in zip(
        stats.tools.items(), answers[::2], answers[1::2], strict=True
    ):
        yield {
            "name": name,
            "stats": tool,
            "settings": config.tools[name],
            "funnel": _funnel(tool),
            "histogram": gain_histogram_svg(
                tool.gain_histogram, tool.tau_f, label=f"Gains of the calls of {name}"
            ),
            "top": [_call_view(shown) for shown in top],
            "bottom": [_call_view(shown) for shown in reversed(bottom) if shown not in top],
        }


def _funnel(tool: ToolStats) -> list[_Step]:
    sampled = tool.drawn - tool.not_ended - tool.not_parsed
    answered = tool.status.get("ok", 0)
    failed = ", ".join(f"{n:,} {status}" for status, n in tool.status.items() if status != "ok")
    distinct = "equal calls at one position count once"
    if tool.looks_ahead:
        distinct += f"; {tool.looks_ahead:,} ask for what stands only after them: not executed"
    steps = [
        ("samples", tool.drawn, f"at {tool.positions - tool.positions_pruned:,} positions"),
        ("are calls", sampled, f"{tool.not_ended:,} do not end, {tool.not_parsed:,} do not parse"),
        ("distinct calls", tool.candidates, distinct),
        ("answered", answered, failed),
        ("kept", tool.kept, f"gain at least {tool.tau_f:g}"),
    ]
    longest = max(1, *(count for _, count, _ in steps))
    return [
        _Step(name=name, count=count, share=round(100 * count / longest, 2), note=note)
        for name, count, note in steps
    ]


def _call_view(shown: ShownCall) -> dict[str, Any]:
    return {
        "before": ("\u2026" if len(shown.before) > _CONTEXT else "") + shown.before[-_CONTEXT:],
        "after": shown.after[:_CONTEXT] + ("\u2026" if len(shown.after) > _CONTEXT else ""),
        "call": str(shown.call),
        "result": shown.result,
        "gain": shown.gain_text,
        "kept": shown.kept,
        "doc_id": shown.doc_id,
    }
