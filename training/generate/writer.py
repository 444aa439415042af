"""One text with live tools: plain text, calls and results in turn (section 2, Inference).

The model decodes until " ->"; then the tool is asked, its result and "]" are inserted with the
pieces of training, and decoding goes on. A call begins where " [" is among the k most likely
tokens (section 4.2), so that many brackets are opened that no call follows: those are taken back.

Differs from the paper: a text may have more than one call, and what is no call, or was called
before, is taken back instead of being answered.
"""

import datetime as dt
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pipeline.engines.generation import Choosing, Step, Text
from pipeline.execution import insertable
from pipeline.tokens import Ids, TokenCodec
from tools.base import ToolResult, ToolStatus
from training.generate.brackets import Bracket, WrittenCall, read_bracket
from training.generate.events import (
    CallEnded,
    CallStarted,
    Event,
    FinishReason,
    Generation,
    GenerationCost,
    TextWritten,
)
from training.generate.markers import Markers
from training.generate.params import GenerationParams
from training.generate.plain_text import PlainText
from training.generate.splicing import after_arrow, annotated, annotation, up_to_arrow
from training.generate.tool_names import ToolNames, may_become

# Where the model wants no call, " [" is among the most likely tokens at place after place.
TAKEN_BACK_PER_CALL = 4
PAGED_TOOL = "WikiSearch"
_NO_MORE_PAGES = (ToolStatus.EMPTY, ToolStatus.INVALID)
_AROUND_A_CALL = 8  # tokens: its brackets, and those more that its canonical tokens may be


class AskTool(Protocol):
    """What answers a call; it raises nothing."""

    async def __call__(self, written: WrittenCall, date: dt.date, page: int) -> ToolResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all texts of a model have in common."""

    codec: TokenCodec
    markers: Markers
    names: ToolNames
    ask: AskTool
    max_result_tokens: int


def tokens_needed(num_prompt: int, params: GenerationParams, max_result_tokens: int) -> int:
    """The most tokens a text can get, the begin-of-text token not counted."""
    call = params.max_call_tokens + max_result_tokens + _AROUND_A_CALL
    return num_prompt + params.max_new_tokens + (0 if params.disabled else params.max_calls * call)


def choosing_of(params: GenerationParams) -> Choosing:
    """How tokens are chosen; when stretches end, and where a call may begin, is said for each."""
    return Choosing(
        max_new_tokens=0,
        trigger_k=params.api_top_k,
        temperature=params.temperature,
        top_p=params.top_p,
        seed=params.seed,
    )


class Writer:
    """Writes a text that begins with `prompt_ids` and gets at most `max_tokens` long."""

    def __init__(
        self,
        text: Text,
        prompt_ids: Ids,
        params: GenerationParams,
        setting: Setting,
        *,
        max_tokens: int,
    ) -> None:
        self._text, self._params, self._max_tokens = text, params, max_tokens
        self._codec, self._markers, self._ask = setting.codec, setting.markers, setting.ask
        self._names, self._max_result_tokens = setting.names, setting.max_result_tokens
        self._date = params.date or dt.datetime.now(dt.UTC).date()
        self._choosing = choosing_of(params)
        self._num_prompt = len(prompt_ids)
        self._ids: list[int] = prompt_ids.tolist()
        self._plain = PlainText(params.stop)
        self._plain_left = params.max_new_tokens
        self._given: list[str] = []  # plain text, as it was yielded
        self._shown = ""  # plain text that was not yielded yet
        self._opened: Step | None = None  # " [", which is not among the ids before it is a call
        self._banned_here = False  # " [", as the next token
        self._calls: list[CallEnded] = []
        self._annotations: list[str] = []  # the text of each call
        self._answers: dict[str, list[ToolStatus]] = defaultdict(list)  # by the text of a call
        self._taken_back = self._num_decoded = self._num_inserted = 0
        self._finish: FinishReason | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """What happens, as it happens; the last is the Generation."""
        while self._finish is None:
            if self._opened is None:
                async with aclosing(self._go_on(self._ids, self._in_plain_text())) as steps:
                    async for step in steps:
                        self._take(step)
                        for written in self._written():
                            yield written
                        if self._finish is not None:
                            break
            else:
                triggered = self._opened.triggered
                call = await self._bracket()
                for written in self._written():
                    yield written
                if call is not None:
                    started = CallStarted(
                        number=len(self._calls),
                        call=call.call,
                        offset=len(self._plain),
                        triggered=triggered,
                    )
                    yield started
                    yield await self._answered(started, call)
        self._shown += self._plain.end()
        for written in self._written():
            yield written
        yield self._generation(self._finish)

    # Plain text

    def _in_plain_text(self) -> Choosing:
        """How the model goes on in plain text."""
        params, markers = self._params, self._markers
        no_call = params.disabled or self._banned_here or len(self._calls) >= params.max_calls
        enough = self._taken_back >= TAKEN_BACK_PER_CALL * params.max_calls
        return replace(
            self._choosing,
            max_new_tokens=1 if self._banned_here else min(self._plain_left, self._room),
            stop_ids=markers.ends_plain_text,
            banned_ids=frozenset({markers.open_id} if no_call else ()),
            trigger_id=None if no_call or enough else markers.open_id,
        )

    def _take(self, step: Step) -> None:
        """Go on with a token of plain text, the end, or " ["."""
        if step.token_id == self._markers.eos_id:
            self._finish = "stop"
        elif step.token_id == self._markers.open_id:
            self._opened = step
        else:
            self._write(step.token_id)

    def _write(self, token_id: int) -> None:
        self._ids.append(token_id)
        self._plain_left -= 1
        self._banned_here = False
        self._shown += self._plain.add(self._bytes([token_id]))
        if self._plain.stopped:
            self._finish = "stop"
        elif not self._plain_left or not self._room:
            self._finish = "length"

    def _written(self) -> Iterator[TextWritten]:
        """The event of what was written since it was asked for last, if anything was."""
        if self._shown:
            self._given.append(self._shown)
            yield TextWritten(text=self._shown)
            self._shown = ""

    # Calls

    async def _bracket(self) -> WrittenCall | None:
        """What the model writes after " [", if it is a call; else it is plain text, or taken back.

        A bracket of the model's own is plain text, as in "[1]"; one that `api_top_k` opened is
        taken back, and so is a call that was made before. Where the call would be of a tool that
        must not be called, the model names another, and if it does not, " [" is taken back.
        """
        opened, self._opened = self._opened, None
        assert opened is not None
        after, read = await self._after(opened, self._in_call)
        if read is Bracket.FORBIDDEN:
            after, read = await self._after(opened, self._in_call_of_another)
            if not isinstance(read, WrittenCall) or read.call.tool not in self._names.tools:
                read = Bracket.FORBIDDEN
        if isinstance(read, WrittenCall) and not self._is_repeated(read):
            self._ids += [opened.token_id, *up_to_arrow(after, read, self._codec)]
            return read
        if opened.triggered or read is not Bracket.NO_CALL:
            self._taken_back += 1
            self._banned_here = True
            return None
        self._write(opened.token_id)
        for token_id in after:
            if self._finish is None:
                self._take(Step(token_id))
        return None

    async def _after(
        self, opened: Step, going_on: Callable[[list[int], int], AsyncGenerator[Step, None]]
    ) -> tuple[list[int], Bracket | WrittenCall]:
        """The tokens after " [" that decide what it is, and what it is."""
        after, spelt = list[int](), b""
        most = min(self._params.max_call_tokens, self._room - 1)
        if most < 1:
            return after, Bracket.NO_CALL
        async with aclosing(going_on([*self._ids, opened.token_id], most)) as steps:
            async for step in steps:
                after.append(step.token_id)
                if step.token_id == self._markers.eos_id:
                    break
                spelt += self._bytes([step.token_id])
                read = read_bracket(spelt, self._params.without_tools)
                if read is not Bracket.UNDECIDED:
                    return after, read
        return after, Bracket.NO_CALL

    def _in_call(self, ids: list[int], most: int) -> AsyncGenerator[Step, None]:
        """What the model writes in a call, up to what may decide that it is one."""
        stop_ids = self._markers.ends_call
        return self._go_on(ids, replace(self._choosing, max_new_tokens=most, stop_ids=stop_ids))

    async def _in_call_of_another(self, ids: list[int], most: int) -> AsyncGenerator[Step, None]:
        """The same where tokens that only lead to a tool of `without_tools` have probability 0."""
        # The random number that chose such a name would not choose freely among the others.
        again = replace(self._choosing, seed=(self._choosing.seed + 1) % 2**63)
        without, spelt = self._params.without_tools, b""
        while most and may_become(without, spelt):
            banned_ids = self._names.leading_to(without, spelt)
            one = replace(again, max_new_tokens=1, banned_ids=banned_ids)
            async with aclosing(self._go_on(ids, one)) as steps:
                async for step in steps:
                    yield step
                    ids, most = [*ids, step.token_id], most - 1
                    spelt += self._bytes([step.token_id])
        if most:
            stop_ids = self._markers.ends_call
            rest = replace(again, max_new_tokens=most, stop_ids=stop_ids)
            async with aclosing(self._go_on(ids, rest)) as steps:
                async for step in steps:
                    yield step

    def _is_repeated(self, written: WrittenCall) -> bool:
        """Whether it was made before, and its answer can be no other."""
        earlier = self._answers[written.text]
        if self._params.interactive_search and written.call.tool == PAGED_TOOL:
            return bool(earlier) and earlier[-1] in _NO_MORE_PAGES
        return bool(earlier)

    async def _answered(self, started: CallStarted, written: WrittenCall) -> CallEnded:
        """Ask the tool, and insert what it says and "]"."""
        began = time.monotonic()
        earlier = self._answers[written.text]
        page = earlier.count(ToolStatus.OK)
        answer = await self._ask(written, self._date, page)
        earlier.append(answer.status)
        answer = self._insert(written, insertable(answer, self._codec, self._max_result_tokens))
        ended = CallEnded(
            started=started,
            status=answer.status,
            result=answer.result or "",
            error=answer.error,
            seconds=time.monotonic() - began,
            page=page,
        )
        self._calls.append(ended)
        self._annotations.append(annotation(written, ended.result))
        return ended

    def _insert(self, written: WrittenCall, answer: ToolResult) -> ToolResult:
        """Go on with what was answered and "]"; where they do not fit, the text ends without."""
        inserted = self._codec.encode_pieces(after_arrow(written, answer.result or ""))
        room = self._room
        if len(inserted) >= room:
            self._finish = "length"
        if len(inserted) <= room:
            self._ids += inserted.tolist()
            self._num_inserted += len(inserted)
        elif answer.result is not None:
            return ToolResult.empty("the model's context has no room for the result")
        return answer

    # Either

    @property
    def _room(self) -> int:
        """How many more tokens the text may get."""
        return self._max_tokens - len(self._ids)

    async def _go_on(self, ids: Sequence[int], choosing: Choosing) -> AsyncGenerator[Step, None]:
        """What the model goes on with after `ids`."""
        stretch = self._text.stretch(np.array(ids, dtype=np.int32), choosing)
        async with aclosing(stretch) as steps:
            async for step in steps:
                self._num_decoded += 1
                yield step

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join(self._codec.token_bytes(ids))

    def _generation(self, finish: FinishReason) -> Generation:
        text = "".join(self._given)
        return Generation(
            text=text,
            annotated=annotated(text, self._calls, self._annotations),
            calls=tuple(self._calls),
            finish_reason=finish,
            taken_back=self._taken_back,
            cost=GenerationCost(
                prompt_tokens=self._num_prompt,
                decoded_tokens=self._num_decoded,
                inserted_tokens=self._num_inserted,
            ),
        )
