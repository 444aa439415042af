"""What a terminal shows of a text: made events, and the characters that come out."""

import asyncio
import io
import re
from collections.abc import AsyncGenerator

import pytest
from rich.console import Console

from tools.base import ToolStatus
from tools.calls import ApiCall
from training.generate.events import (
    CallEnded,
    CallStarted,
    Event,
    Generation,
    GenerationCost,
    TextWritten,
)
from training.generate.render import show

COST = GenerationCost(prompt_tokens=1234, decoded_tokens=20, inserted_tokens=3)
FIRST = CallStarted(number=0, call=ApiCall("Calculator", "27 + 15"), offset=3, triggered=True)
SECOND = CallStarted(number=1, call=ApiCall("Search", "x"), offset=6, triggered=False)
ANSWERED = CallEnded(
    started=FIRST, status=ToolStatus.OK, result="42", error=None, seconds=0.125, page=0
)
REFUSED = CallEnded(
    started=SECOND,
    status=ToolStatus.INVALID,
    result="",
    error="no tool\x1b[2J",
    seconds=2.0,
    page=1,
)


def generation(*calls: CallEnded) -> Generation:
    return Generation(
        text=" is 42.",
        annotated="",
        calls=calls,
        finish_reason="length",
        taken_back=2,
        cost=COST,
    )


def shown(*events: Event, prompt: str = "27 and 15", colours: bool = False) -> str:
    async def given() -> AsyncGenerator[Event, None]:
        for event in events:
            yield event

    console = Console(
        file=(file := io.StringIO()), width=200, emoji=False, force_terminal=colours,
        color_system="standard" if colours else None,
    )  # fmt: skip
    ended = asyncio.run(show(prompt, given(), console))
    assert ended is events[-1]
    return file.getvalue()


def test_a_call_stands_where_it_was_made_and_the_table_says_what_came_of_it() -> None:
    events: list[Event] = [
        TextWritten(text=" is"),
        FIRST,
        ANSWERED,
        TextWritten(text=" 4"),
        TextWritten(text="2."),
    ]
    text, *table, costs = shown(*events, generation(ANSWERED)).splitlines()
    assert text == "27 and 15 is [Calculator(27 + 15) -> 42] 42."
    assert "tool" in table[1] and "triggered" in table[1]
    cells = [cell.strip() for cell in re.split("[|\u2502]", table[3])[1:-1]]
    assert cells == ["Calculator", "27 + 15", "ok", "42", "0.12", "yes"]
    assert costs == (
        "1,234 tokens of the prompt, 20 decoded, 3 inserted; 2 taken back; ended at its length"
    )


def test_a_call_without_a_result_says_why_in_the_table() -> None:
    text, *table, _ = shown(SECOND, REFUSED, generation(REFUSED)).splitlines()
    assert text == "27 and 15 [Search(x) ->]"
    cells = [cell.strip() for cell in re.split("[|\u2502]", table[3])[1:-1]]
    assert cells == ["Search", "x (page 2)", "invalid", "no tool\ufffd[2J", "2.00", "no"]


def test_a_text_without_calls_has_no_table() -> None:
    assert len(shown(TextWritten(text=" is 42."), generation()).splitlines()) == 2


def test_calls_have_a_colour_and_text_has_none() -> None:
    coloured = shown(TextWritten(text=" is"), FIRST, ANSWERED, generation(ANSWERED), colours=True)
    plain, call = coloured.splitlines()[0].split(" is")
    assert plain == "\x1b[1m27 and 15\x1b[0m"
    assert "\x1b[36m [Calculator(27 + 15) ->\x1b[0m\x1b[2;36m 42\x1b[0m" in call


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[bold]x[/] :smile: [/nothing]", "[bold]x[/] :smile: [/nothing]"),
        ("a\nb", "a\nb"),
        ("\x1b]0;title\x07 \x9b2J\r\x00", "\ufffd]0;title\ufffd \ufffd2J\ufffd\ufffd"),
        ("word " * 100, "word " * 100),
    ],
)
def test_text_is_shown_as_it_is_but_for_what_a_terminal_would_obey(
    text: str, expected: str
) -> None:
    assert shown(TextWritten(text=text), generation(), prompt=text).startswith(expected * 2 + "\n")
