"""What happens while a text is generated, and what is there at its end."""

from dataclasses import dataclass
from typing import Literal

from tools.base import ToolStatus
from tools.calls import ApiCall

FinishReason = Literal["stop", "length"]  # the model or a stop text ended it; no tokens left


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWritten:
    """Plain text that was added; calls are not part of it."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """The model has written a whole call and waits for its result.

    It stands in the plain text at character `offset`, which lies behind its end where a stop text
    began before the call and ended after it. `triggered`: " [" was among the `api_top_k`
    most likely tokens, but regular decoding would have chosen another.
    """

    number: int  # of the call in the text, from 0
    call: ApiCall
    offset: int
    triggered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """The result of a call; what it was is in `started`.

    `result` is what was inserted, "" where the call has none: then `status` says why and `error`
    in words. `page` counts the results of equal searches, from 0.
    """

    started: CallStarted
    status: ToolStatus
    result: str
    error: str | None
    seconds: float
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCost:
    """Tokens of one text. Chosen ones are plain text, calls, and what was taken back."""

    prompt_tokens: int
    decoded_tokens: int
    inserted_tokens: int  # results and the tokens that close calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A finished text. `text` goes on after the prompt and has no calls in it, `annotated` is the
    same with the calls in their places, as in C*.

    `taken_back` counts brackets that were begun only because of `api_top_k` and became no call, and
    calls that were made before: the text went on as if they had not been begun.
    """

    text: str
    annotated: str
    calls: tuple[CallEnded, ...]
    finish_reason: FinishReason
    taken_back: int
    cost: GenerationCost


Event = TextWritten | CallStarted | CallEnded | Generation  # a Generation comes last, once
