"""What is said of a completion: OpenAI's response and the chunks of its stream, with the calls."""

import json
import time
import uuid
from typing import Any

from training.generate.events import CallEnded, CallStarted, Event, Generation, TextWritten

DONE = b"data: [DONE]\n\n"

Json = dict[str, Any]


def event_of(data: Json) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


class Completion:
    """What answers one request. All of it carries the same id."""

    def __init__(self, model: str) -> None:
        self.id = f"cmpl-{uuid.uuid4().hex}"
        self._head = {
            "id": self.id,
            "object": "text_completion",
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, generations: list[Generation]) -> Json:
        """The response, once all prompts have their text."""
        choices = [
            self._choice(
                index,
                generation.text,
                finish_reason=generation.finish_reason,
                tool_calls=[self._ended(index, call) for call in generation.calls],
                annotated_text=generation.annotated,
            )
            for index, generation in enumerate(generations)
        ]
        return self._head | {"choices": choices, "usage": usage_of(generations)}

    def chunk(self, index: int, event: Event) -> Json:
        """What a stream says of one event of the text `index`."""
        match event:
            case TextWritten():
                choice = self._choice(index, event.text)
            case CallStarted():
                choice = self._choice(index, "", tool_calls=[self._started(index, event)])
            case CallEnded():
                choice = self._choice(index, "", tool_calls=[self._ended(index, event)])
            case Generation():
                choice = self._choice(
                    index,
                    "",
                    finish_reason=event.finish_reason,
                    annotated_text=event.annotated,
                )
        return self._head | {"choices": [choice]}

    def usage_chunk(self, generations: list[Generation]) -> Json:
        """The last chunk of a stream, where it was asked for."""
        return self._head | {"choices": [], "usage": usage_of(generations)}

    def _choice(
        self, index: int, text: str, *, finish_reason: str | None = None, **more: Any
    ) -> Json:
        choice = {"index": index, "text": text, "finish_reason": finish_reason, "logprobs": None}
        return choice | more

    def _started(self, index: int, started: CallStarted) -> Json:
        return {
            "index": started.number,
            "id": f"call-{self.id.removeprefix('cmpl-')}-{index}-{started.number}",
            "type": "function",
            "function": {
                "name": started.call.tool,
                "arguments": json.dumps({"input": started.call.input}, ensure_ascii=False),
            },
            "offset": started.offset,
            "triggered": started.triggered,
        }

    def _ended(self, index: int, ended: CallEnded) -> Json:
        return self._started(index, ended.started) | {
            "result": ended.result,
            "status": ended.status.value,
            "error": ended.error,
            "seconds": round(ended.seconds, 6),
            "page": ended.page,
        }


def usage_of(generations: list[Generation]) -> Json:
    """Tokens of all texts. What tools answered is beside OpenAI's counts: it was not decoded."""
    costs = [generation.cost for generation in generations]
    prompt = sum(cost.prompt_tokens for cost in costs)
    decoded = sum(cost.decoded_tokens for cost in costs)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": decoded,
        "total_tokens": prompt + decoded,
        "inserted_tokens": sum(cost.inserted_tokens for cost in costs),
    }
