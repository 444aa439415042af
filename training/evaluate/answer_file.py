"""What a model answered, in a file that grows by a line for each prompt it was asked."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.settings import describe
from tools.base import InputError, OutputError, ToolStatus
from tools.places import why
from training.evaluate.models import Completion
from training.generate.json_lines import add_line, read_lines

# Not what a tool says, but that it did not get to say it.
_IS_ASKED_AGAIN = (ToolStatus.FAILED, ToolStatus.TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A prompt; with the day, where a tool may be told of it."""

    prompt: str
    date: str | None


class _Call(BaseModel):
    tool: str
    status: str


class Line(BaseModel):
    """A line of the file, as far as it is read again."""

    model_config = ConfigDict(frozen=True)

    prompt: str
    date: str | None
    text: str | None
    error: str | None
    calls: tuple[_Call, ...] = ()

    @property
    def may_be_otherwise(self) -> bool:
        """Whether a tool failed or was too late, and may not be when it is asked again."""
        return any(call.status in _IS_ASKED_AGAIN for call in self.calls)


class AnswerFile:
    """All that one model, decoded in one way, answered to prompts of a benchmark."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> dict[Asked, Line]:
        """The last line of each prompt; none, where there is no file yet.

        Raises:
            InputError: it cannot be read, or a line is none of those that are written.
        """
        return {Asked(prompt=line.prompt, date=line.date): line for line in self._read()[0]}

    @contextmanager
    def adding(self) -> Iterator[Callable[[str, Asked, Completion], None]]:
        """Adds what became of a prompt, with the id of an example that has it.

        Raises:
            InputError: as in `lines`.
            OutputError: it cannot be written.
        """
        _, end = self._read()
        with self._refusals():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = FileIO(self.path, "a")
        with file:
            with self._refusals():
                file.truncate(end)  # what is behind it is half a line
            yield partial(self._add, file)

    def _add(self, file: FileIO, id: str, asked: Asked, completion: Completion) -> None:
        line = {
            "id": id,
            "prompt": asked.prompt,
            "date": asked.date,
            "text": completion.text,
            "error": completion.error,
        }
        with self._refusals():
            add_line(file, line | dict(completion.line))

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"{self.path}: cannot write: {why(error)}; what is answered so far is kept, and "
                "the same command goes on with it"
            ) from None

    def _read(self) -> tuple[list[Line], int]:
        if not self.path.exists():
            return [], 0
        found, end = read_lines(self.path)
        lines = list[Line]()
        try:
            lines.extend(map(Line.model_validate, found))
        except ValidationError as error:
            raise InputError(
                f"{self.path}: line {len(lines) + 1} is no answer: {describe(error)}; without the "
                "line its prompt is asked again"
            ) from None
        return lines, end
