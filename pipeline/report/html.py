"""report/index.html: one file, no network, readable in light, dark and at phone width."""

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pipeline.config import RunConfig
from pipeline.durations import duration
from pipeline.report.calls import ShownCall
from pipeline.report.plots import gain_histogram_svg
from pipeline.report.rate_plot import rate_svg
from pipeline.report.rounds import Rounds
from pipeline.report.rounds_page import view_of
from pipeline.report.survey import Survey
from pipeline.report.tool_stats import ToolStats
from tools.atomic import write_text_atomically
from tools.calls import ARROW, CLOSE, OPEN
from tools.places import Place

_CONTEXT = 160  # characters on each side of a call
_LONGEST = 400  # characters of an input or a result
_TEMPLATE = "index.html.j2"
_STAGES = ("read", "sample", "execute", "score", "commit")
# Controls, and what turns the direction of the text around it: texts of the web hold them.
_UNREADABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a tool's funnel, or of the stages."""

    name: str
    value: str
    share: float  # of the longest bar, in percent
    note: str = ""


def write_report(
    directory: Place,
    found: Survey,
    config: RunConfig,
    *,
    build: dict[str, Any] | None = None,
    rounds: Rounds | None = None,
) -> Place:
    """Writes stats.json and index.html into `directory`; returns the path of the page.

    `build` is the content of build.json, where the run has been built; `rounds` end with the run,
    where it is compared with others.

    Raises:
        OutputError: the report cannot be written.
    """
    compared = {} if rounds is None else {"rounds": [each.as_json() for each in rounds.rounds]}
    content = json.dumps(found.stats.as_json() | compared, indent=2, allow_nan=False)
    write_text_atomically(directory / "stats.json", content + "\n")
    page = directory / "index.html"
    write_text_atomically(page, render(found, config, build=build, rounds=rounds))
    return page


def render(
    found: Survey,
    config: RunConfig,
    *,
    build: dict[str, Any] | None = None,
    rounds: Rounds | None = None,
) -> str:
    """The page as text."""
    here, stats = Path(__file__).parent, found.stats
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        finalize=_readable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["duration"] = duration
    environment.filters["utc"] = _utc
    script = (here / "calls.js").read_text(encoding="utf-8")
    return environment.get_template(_TEMPLATE).render(
        stats=stats,
        config=config,
        model="/".join(Path(config.model.path).parts[-2:]),  # all of a name of the Hub
        build=build,
        rounds=None if rounds is None else view_of(rounds),
        new_calls=[] if rounds is None else [_call_view(shown) for shown in rounds.new_calls],
        tools=list(_tool_views(found, config)),
        calls=[_call_view(shown) for shown in found.calls],
        documents=found.documents,
        stages=_stages(stats.seconds),
        rate=rate_svg(stats.timings, title="Documents a minute over the time at work"),
        totals={
            field: sum(getattr(tool, field) for tool in stats.tools.values())
            for field in ("positions", "candidates", "executed", "kept")
        },
        markers={"open": OPEN, "arrow": ARROW, "close": CLOSE},
        style=Markup((here / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _utc(unix_time: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(unix_time))


def _readable(value: Any) -> Any:
    """What stands in the page for a value: of a text everything but what would garble others."""
    return _UNREADABLE.sub("\ufffd", value) if type(value) is str else value


def _tool_views(found: Survey, config: RunConfig) -> Iterator[dict[str, Any]]:
    for name, tool in found.stats.tools.items():
        yield {
            "name": name,
            "stats": tool,
            "settings": config.tools[name],
            "funnel": _funnel(tool),
            "histogram": gain_histogram_svg(
                tool.gain_histogram,
                tool.tau_f,
                kept=tool.kept,
                title=f"Gains of the calls of {name}",
            ),
            "num_shown": sum(shown.call.tool == name for shown in found.calls),
        }


def _funnel(tool: ToolStats) -> list[Bar]:
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
        Bar(name=name, value=f"{count:,}", share=round(100 * count / longest, 2), note=note)
        for name, count, note in steps
    ]


def _stages(seconds: dict[str, float]) -> list[Bar]:
    """Where the time of all processes went, in the order of the stages."""
    total, longest = sum(seconds.values()), max(seconds.values(), default=0.0)
    return [
        Bar(
            name=stage.replace("_", " "),
            value=f"{duration(seconds[stage])}, {seconds[stage] / total:.0%}",
            share=round(100 * seconds[stage] / longest, 2),
        )
        for stage in dict.fromkeys([*_STAGES, *sorted(seconds)])
        if seconds.get(stage)
    ]


def _call_view(shown: ShownCall) -> dict[str, Any]:
    before, after = shown.before, shown.after
    return {
        "before": ("\u2026" if len(before) > _CONTEXT else "") + before[-_CONTEXT:],
        "after": after[:_CONTEXT] + ("\u2026" if len(after) > _CONTEXT else ""),
        "tool": shown.call.tool,
        "call": _cut(str(shown.call)),
        "result": None if shown.result is None else _cut(shown.result),
        "gain": shown.gain_text,
        "order": f"{shown.worth:.6f}",
        "kept": "kept" if shown.kept else "dropped",
        "doc_id": _cut(shown.doc_id),
    }


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "\u2026"
