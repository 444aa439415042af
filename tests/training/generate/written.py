"""What becomes of a prompt, with a model that knows by heart how it goes on."""

import asyncio
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.engines.generation import Text
from tests.training.generate.reciting import CODEC, VOCABULARY, Reciting, tokens
from tools.base import ToolResult
from tools.calls import ApiCall
from training.generate.brackets import WrittenCall
from training.generate.events import CallEnded, CallStarted, Event, Generation, TextWritten
from training.generate.markers import markers_of
from training.generate.params import GenerationParams
from training.generate.tool_names import ToolNames
from training.generate.writer import Setting, Writer

TOOLS = ("Calculator", "Calendar", "WikiSearch", "QA", "MT")
PROMPT = (" The", " sum")
SUM = ApiCall(tool="Calculator", input="1 + 2")
CALL = (" [", str(SUM), " ->")
ANSWERED = (*CALL, " 3", "]")
Pieces = Sequence[str | bytes]


@dataclass
class Answers:
    """What is asked is answered with what is known, and otherwise with "3"."""

    known: Mapping[str, ToolResult] = field(default_factory=dict)
    asked: list[tuple[str, dt.date, int]] = field(default_factory=list)

    async def __call__(self, written: WrittenCall, date: dt.date, page: int) -> ToolResult:
        self.asked.append((written.text, date, page))
        return self.known.get(written.text, ToolResult.ok("3"))


@dataclass
class Written:
    events: list[Event]
    engine: Reciting
    answers: Answers

    @property
    def generation(self) -> Generation:
        assert isinstance(self.events[-1], Generation)
        return self.events[-1]

    @property
    def text(self) -> str:
        return self.generation.text

    @property
    def last_ids(self) -> list[int]:
        """The tokens before the last stretch, without the prompt."""
        return self.engine.asked[-1][0][len(tokens(PROMPT)) :]


def write(
    *texts: Pieces, known: Mapping[str, ToolResult] | None = None, room: int = 400, **params: Any
) -> Written:
    """What becomes of PROMPT where the model goes on with the first of the texts it can."""
    engine = Reciting([[*PROMPT, *pieces] for pieces in texts])
    return write_with(engine, Answers(known or {}), room=room, **params)


def write_with(engine: Reciting, answers: Answers, *, room: int = 400, **params: Any) -> Written:
    async def events() -> list[Event]:
        async with engine.begin(room) as text:
            return [event async for event in writer(text, answers, room, **params).events()]

    written = Written(asyncio.run(events()), engine, answers)
    check(written)
    return written


def writer(text: Text, answers: Answers, room: int, **params: Any) -> Writer:
    setting = Setting(
        codec=CODEC,
        markers=markers_of(CODEC, VOCABULARY),
        names=ToolNames(TOOLS, CODEC.token_bytes(range(VOCABULARY))),
        ask=answers,
        max_result_tokens=20,
    )
    prompt_ids = CODEC.encode_pieces(PROMPT)
    return Writer(text, prompt_ids, GenerationParams(**params), setting, max_tokens=room)


def check(written: Written) -> None:
    """What holds of every text."""
    generation, texts, started = written.generation, list[str](), list[CallStarted]()
    for event in written.events[:-1]:
        if isinstance(event, TextWritten):
            assert event.text
            texts.append(event.text)
        elif isinstance(event, CallStarted):
            assert event.number == len(started)
            started.append(event)
        else:
            assert isinstance(event, CallEnded)
            assert event.started is started[-1]
    assert "".join(texts) == generation.text
    assert [ended.started for ended in generation.calls] == started
    assert len(CODEC.encode_pieces(PROMPT)) == generation.cost.prompt_tokens
    text, done = "", 0
    for ended, (asked, _, _) in zip(generation.calls, written.answers.asked, strict=True):
        offset, result = ended.started.offset, ended.result and f" {ended.result}"
        text += generation.text[done:offset] + f" [{asked} ->{result}]"
        done = offset
    assert generation.annotated == text + generation.text[done:]
