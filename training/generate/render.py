"""Texts and their calls in a terminal: as they are written, then a table of the calls."""

import unicodedata
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.base import ToolStatus
from tools.calls import ARROW, CLOSE, OPEN
from training.generate.events import (
    CallEnded,
    CallStarted,
    Event,
    Generation,
    GenerationCost,
    TextWritten,
)

_CALL, _RESULT, _NO_RESULT = "cyan", "dim cyan", "yellow"
_INSTEAD_OF_A_CONTROL = "\ufffd"


async def show(prompt: str, events: AsyncGenerator[Event, None], console: Console) -> Generation:
    """Show a text after its prompt while it is generated, each call where it stands.

    Then come a table of its calls, if it has any, and what it cost. Returns the Generation that
    ends `events`.
    """
    _write(console, prompt, "bold")
    async with aclosing(events):
        async for event in events:
            match event:
                case TextWritten():
                    _write(console, event.text)
                case CallStarted():
                    _write(console, f"{OPEN}{event.call}{ARROW}", _CALL)
                case CallEnded():
                    _write(console, f" {event.result}" * bool(event.result), _RESULT)
                    _write(console, CLOSE, _CALL if event.result else _NO_RESULT)
                case Generation():
                    _tell_of(event, console)
                    return event
    raise AssertionError("a text ends with its Generation")


def _tell_of(generation: Generation, console: Console) -> None:
    console.print()
    if generation.calls:
        console.print(trace_table(generation.calls))
    console.print(cost_line(generation), style="dim", highlight=False, soft_wrap=True)


def trace_table(calls: Sequence[CallEnded]) -> Table:
    """The calls of a text: what was asked, what came back or why nothing did, how long it took."""
    table = Table()
    for heading in ("tool", "input", "status", "result or error"):
        table.add_column(heading, overflow="fold")
    table.add_column("seconds", justify="right")
    table.add_column("triggered")
    for ended in calls:
        started = ended.started
        page = f" (page {ended.page + 1})" if ended.page else ""
        table.add_row(
            started.call.tool,
            Text(_visible(started.call.input) + page),
            Text(ended.status, style="green" if ended.status is ToolStatus.OK else _NO_RESULT),
            Text(_visible(ended.result or ended.error or "")),
            f"{ended.seconds:.2f}",
            "yes" if started.triggered else "no",
        )
    return table


def cost_line(generation: Generation) -> str:
    """Tokens of a text, what was taken back, and what ended it."""
    ends = {"stop": "ended by the model or a stop text", "length": "ended at its length"}
    return (
        f"{tokens_line(generation.cost)}; {generation.taken_back} taken back; "
        f"{ends[generation.finish_reason]}"
    )


def tokens_line(cost: GenerationCost) -> str:
    """What was read, chosen and inserted, in tokens."""
    return (
        f"{cost.prompt_tokens:,} tokens of the prompt, {cost.decoded_tokens:,} decoded, "
        f"{cost.inserted_tokens:,} inserted"
    )


def _write(console: Console, text: str, style: str | None = None) -> None:
    # As it is: a line is broken where the model breaks it.
    console.out(_visible(text), style=style, end="", highlight=False)


def _visible(text: str) -> str:
    """`text` without what a terminal would obey: a model may write any character."""
    return "".join(
        _INSTEAD_OF_A_CONTROL if unicodedata.category(ch) == "Cc" and ch not in "\n\t" else ch
        for ch in text
    )
