"""Prompts of a file, and a line of JSON for each of them."""

import datetime as dt
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StrictInt, StrictStr, ValidationError

from pipeline.settings import Section
from tools.base import ConfigError, InputError
from training.generate.config import GenerateConfig
from training.generate.events import CallEnded, Generation
from training.generate.identity import built_tools, model_identity, tools_identity
from training.generate.params import GenerationParams

STANDARD_INPUT = Path("-")
_KINDS = (".jsonl", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt of a file; `id` is its line's, or the number of that line, from 1.

    With a temperature equal prompts of one seed get the same text: a line may have its own.
    """

    id: str | int
    text: str
    seed: int | None = None

    def params(self, of_batch: GenerationParams) -> GenerationParams:
        """How its text is generated."""
        if self.seed is None:
            return of_batch
        return of_batch.model_copy(update={"seed": self.seed})


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Prompts, and all that their texts depend on."""

    config: GenerateConfig
    prompts: Sequence[Prompt]
    params: GenerationParams

    def identity(self) -> dict[str, Any]:
        """What tells it from another batch, however that is served and sized.

        Raises:
            ToolformerError: there is no such model, or a tool cannot be built.
        """
        config = self.config
        return {
            "model": model_identity(config.model, config.engine),
            **tools_identity(config.tools, built_tools(config.tools), config.max_result_tokens),
            "params": self.params.model_dump(mode="json"),
            "prompts": [asdict(prompt) for prompt in self.prompts],
        }


class _Line(Section):
    prompt: StrictStr
    id: StrictStr | StrictInt | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] | None = None


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of `path`: objects with a "prompt" and perhaps an "id" in .jsonl, else lines.

    "-" is standard input, a prompt in each line. Blank lines are no prompts.

    Raises:
        ConfigError: the file is of another kind.
        InputError: it cannot be read, has no prompt, or has a line that is none.
    """
    if path != STANDARD_INPUT and path.suffix not in _KINDS:
        raise ConfigError(f"{path}: expected a file of prompts, {' or '.join(_KINDS)}, or -")
    prompts = [
        _parsed(path, number, line) if path.suffix == ".jsonl" else Prompt(id=number, text=line)
        for number, line in _lines(path)
    ]
    if not prompts:
        raise InputError(f"{_named(path)}: no prompt in it")
    return prompts


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        data = sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        try:
            line = raw.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{_named(path)}: line {number}: not UTF-8") from None
        if line.strip():
            yield number, line


def _parsed(path: Path, number: int, line: str) -> Prompt:
    try:
        parsed = _Line.model_validate_json(line)
    except ValidationError as error:
        raise InputError(
            f'{path}: line {number}: expected {{"prompt": text}}, perhaps with "id" and "seed"; '
            + "; ".join(map(_described, error.errors()))
        ) from None
    own_id = number if parsed.id is None else parsed.id
    return Prompt(id=own_id, text=parsed.prompt, seed=parsed.seed)


def _described(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "json_invalid":
        return "this is not JSON"  # pydantic counts lines of its own
    return ": ".join([*map(str, problem["loc"]), problem["msg"]])


def _named(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def line_of(
    prompt: Prompt, outcome: Generation | InputError, date: dt.date | None
) -> dict[str, Any]:
    """A prompt, "today" as the Calendar has it, and what became of it or "error", as in JSON."""
    head: dict[str, Any] = {"id": prompt.id, "prompt": prompt.text, "date": str(date)}
    if isinstance(outcome, InputError):
        return head | {"error": str(outcome)}
    return head | text_fields(outcome)


def text_fields(generation: Generation) -> dict[str, Any]:
    """A text, its calls and what it cost, as JSON has them."""
    return {
        "text": generation.text,
        "annotated": generation.annotated,
        "finish_reason": generation.finish_reason,
        "calls": [call_fields(call) for call in generation.calls],
        "taken_back": generation.taken_back,
        "cost": asdict(generation.cost),
    }


def call_fields(ended: CallEnded) -> dict[str, Any]:
    """A call and what came of it, as JSON has it."""
    started = ended.started
    return {
        "tool": started.call.tool,
        "input": started.call.input,
        "offset": started.offset,
        "triggered": started.triggered,
        "status": str(ended.status),
        "result": ended.result,
        "error": ended.error,
        "seconds": round(ended.seconds, 3),
        "page": ended.page,
    }


class Summary:
    """How many texts there are, how their calls ended, and how many prompts have none."""

    def __init__(self) -> None:
        self._texts = self._refused = self._decoded = 0
        self._statuses: Counter[str] = Counter()

    def __len__(self) -> int:
        """Lines that were counted."""
        return self._texts + self._refused

    def add(self, line: Mapping[str, Any]) -> None:
        """Count a line of the file."""
        if "error" in line:
            self._refused += 1
            return
        self._texts += 1
        self._decoded += line["cost"]["decoded_tokens"]
        self._statuses.update(call["status"] for call in line["calls"])

    def __str__(self) -> str:
        ended = ", ".join(
            f"{number:,} {status}" for status, number in sorted(self._statuses.items())
        )
        calls = f"{self._statuses.total():,} calls" + (f" ({ended})" if ended else "")
        told = f"{self._texts:,} texts with {calls}, {self._decoded:,} tokens decoded"
        return told + (f"; {self._refused:,} with an error instead" if self._refused else "")
