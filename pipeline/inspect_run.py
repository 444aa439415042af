"""Tables for the terminal: the candidates of a run, and what a run came to."""

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE, SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from pipeline.config import RunConfig
from pipeline.report.calls import EVERY_CALL, CallFilter, CallQuery, ShownCall, find_calls
from pipeline.report.rounds import Rounds
from pipeline.report.rounds_page import tools_of
from pipeline.report.stats import Stats
from tools.calls import ARROW, CLOSE, OPEN
from tools.places import Place

_CONTEXT = 40  # characters of the document on each side of a call
_LONGEST_RESULT = 90


def inspect_table(
    unit_files: Iterable[Place],
    config: RunConfig,
    *,
    limit: int = 20,
    where: CallFilter = EVERY_CALL,
) -> Table:
    """The `limit` candidates with the highest gains, with losses and surroundings.

    Raises:
        InputError: a unit cannot be read.
    """
    table = Table(title="Candidates by gain, L- - L+ in nats", title_justify="left", box=SIMPLE)
    for heading in ("gain", "L-", "L+"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("kept", no_wrap=True)
    table.add_column("tool", no_wrap=True)
    table.add_column("call -> result, in its place")
    tau_f = {name: tool.tau_f for name, tool in config.tools.items()}
    [calls] = find_calls(unit_files, tau_f, [CallQuery(where=where, limit=limit)])
    for shown in calls:
        place = Text.assemble(call_in_place(shown), "\n", (printable(shown.doc_id), "dim"))
        table.add_row(
            shown.gain_text,
            _loss_minus(shown),
            _nats(shown.loss_plus),
            Text("yes", style="bold green") if shown.kept else Text("no", style="dim"),
            shown.call.tool,
            place,
        )
    return table


def summary_table(stats: Stats) -> Table:
    """What each tool came to, with the model's work below: the end of `annotate` and `report`."""
    speed = stats.tokens_per_second
    captions = [
        f"{name} reads {tool.paragraphs_read}"
        for name, tool in stats.tools.items()
        if tool.paragraphs_read
    ]
    if speed:
        captions.append(f"{speed:,.0f} tokens/s through the model")
    table = Table(
        title=f"{stats.documents:,} documents",
        title_justify="left",
        caption="\n".join(captions) or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("tool", no_wrap=True)
    for heading in ("documents", "positions", "candidates", "executed", "scored", "tau_f", "kept"):
        table.add_column(heading, justify="right")
    for name, tool in stats.tools.items():
        counts = (tool.documents, tool.positions, tool.candidates, tool.executed, tool.scored)
        kept = Text(f"{tool.kept:,}", style="bold green" if tool.kept else "dim")
        table.add_row(name, *(f"{count:,}" for count in counts), f"{tool.tau_f:g}", kept)
    return table


def rounds_table(rounds: Rounds) -> Table:
    """Rounds side by side by tool, with the share of samples that are calls and mean gains."""
    table = Table(
        title="Rounds",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("tool", no_wrap=True)
    headings = (
        "round",
        "positions",
        "are calls",
        "distinct",
        "kept",
        "gain",
        "same",
        "new",
        "lost",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, by_round in tools_of(rounds).items():
        for number, tool in by_round:
            shared = (
                [] if tool.calls is None else [tool.calls.same, tool.calls.new, tool.calls.lost]
            )
            table.add_row(
                name if number == by_round[0][0] else "",
                str(number),
                f"{tool.positions:,}",
                "" if tool.calls_share is None else f"{tool.calls_share:.0%}",
                f"{tool.candidates:,}",
                f"{tool.kept:,}",
                "" if tool.mean_gain is None else f"{tool.mean_gain:.2f}",
                *(f"{count:,}" for count in shared),
            )
    return table


def top_calls_table(calls: Sequence[ShownCall]) -> Table:
    """`calls` in their places with gain and whether they are kept, as in the paper's Table 10."""
    table = Table(title="Calls by gain", title_justify="left", expand=True, show_lines=True)
    table.add_column("example", ratio=1)
    table.add_column("L- - L+", justify="right", no_wrap=True)
    table.add_column("kept", no_wrap=True)
    for shown in calls:
        table.add_row(call_in_place(shown), shown.gain_text, "yes" if shown.kept else "no")
    return table


def call_in_place(shown: ShownCall) -> Text:
    """The call with its result, highlighted, between the text before and after it."""
    before, after = printable(shown.before), printable(shown.after)
    text = Text(("..." if len(before) > _CONTEXT else "") + before[-_CONTEXT:])
    text.append(OPEN + printable(str(shown.call)), style="bold cyan")
    if shown.result is not None:
        result = printable(shown.result)
        cut = result[:_LONGEST_RESULT] + ("..." if len(result) > _LONGEST_RESULT else "")
        text.append(f"{ARROW} {cut}", style="bold green")
    text.append(CLOSE, style="bold cyan")
    text.append(after[:_CONTEXT] + ("..." if len(after) > _CONTEXT else ""))
    return text


def printable(text: str) -> str:
    """`text` without anything that could move the cursor: white space and controls as spaces."""
    return "".join(ch if ch.isprintable() else " " for ch in text)


def _loss_minus(shown: ShownCall) -> str:
    """L_minus, or what it is at most where L_i(e(c, eps)) was not computed."""
    if shown.loss_minus is None and shown.loss_empty is not None:
        return f"<= {shown.loss_empty:.2f}"
    return _nats(shown.loss_minus)


def _nats(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.2f}"
