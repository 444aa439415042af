"""The contract every tool keeps, and the root of every error this system raises.

A tool that fails is data: its result carries a status and an error text. Exceptions are for
broken contracts (wrong configuration, a result count that does not match), which stop the run.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class ToolformerError(Exception):
    """Root of all errors that are shown to a user as one line."""


class ConfigError(ToolformerError):
    """A setting, a file named by a setting, or a command-line argument is wrong."""


class InputError(ToolformerError):
    """An input file cannot be used: missing, torn, empty, or without a needed column."""


class OutputError(ToolformerError):
    """A file cannot be written: the disk is full, or the place is not writable."""


class ContractError(ToolformerError):
    """A stage received or produced something its contract rules out.

    The message names the stage, the document, what was got and what was expected.
    """

    def __init__(self, *, stage: str, doc_id: str, got: object, expected: object) -> None:
        # All four go to Exception so that the error survives pickling between processes.
        super().__init__(stage, doc_id, str(got), str(expected))
        self.stage, self.doc_id, self.got, self.expected = stage, doc_id, got, expected

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_contract_error, self.args)

    def __str__(self) -> str:
        return f"{self.stage}: document {self.doc_id}: got {self.got}, expected {self.expected}"


def _rebuild_contract_error(stage: str, doc_id: str, got: str, expected: str) -> ContractError:
    return ContractError(stage=stage, doc_id=doc_id, got=got, expected=expected)


def one_line(error: BaseException) -> str:
    """The text of an error without its line breaks: part of the one line a user is shown."""
    return " ".join(str(error).split())


class ToolStatus(StrEnum):
    """How the execution of one call ended. Only OK carries a result."""

    OK = "ok"
    INVALID = "invalid"  # the tool does not accept this input ("35" for the calculator)
    EMPTY = "empty"  # accepted, but there is no answer (no passage found)
    FAILED = "failed"  # the tool itself broke
    TIMEOUT = "timeout"  # no answer in time


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """One call to execute. `date` is the date of the document the call stands in, if known.

    `page` counts equal searches, from 0: one that is made again asks for what comes next.
    """

    input: str
    date: dt.date | None = None
    page: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer to one request. `result` is set exactly when `status` is OK.

    `retryable` may be set when `status` is FAILED: what broke may mend itself, so that the same
    request is worth asking again (a service that is starting, not an input it refuses).
    """

    status: ToolStatus
    result: str | None = None
    error: str | None = None
    retryable: bool = False

    def __post_init__(self) -> None:
        if (self.status is ToolStatus.OK) != (self.result is not None):
            raise ValueError(f"status {self.status} with result {self.result!r}")
        if self.retryable and self.status is not ToolStatus.FAILED:
            raise ValueError(f"status {self.status} cannot be retryable")

    @classmethod
    def ok(cls, result: str) -> "ToolResult":
        return cls(status=ToolStatus.OK, result=result)

    @classmethod
    def invalid(cls, error: str) -> "ToolResult":
        return cls(status=ToolStatus.INVALID, error=error)

    @classmethod
    def empty(cls, error: str) -> "ToolResult":
        return cls(status=ToolStatus.EMPTY, error=error)

    @classmethod
    def failed(cls, error: str, *, retryable: bool = False) -> "ToolResult":
        return cls(status=ToolStatus.FAILED, error=error, retryable=retryable)


class Tool(Protocol):
    """What the pipeline asks of a tool (paper section 3).

    Constructing a tool is cheap and checks its files: the driver does it to learn `version`,
    which changes whenever the same input may give another result and so enters the run's
    fingerprint and the key of the result cache. `run` returns one result per request, in order,
    and does not raise for an input it cannot answer. A result depends on its request and the
    version alone, not on the other requests of the batch.

    A tool whose answers depend on the date of the document says so with an attribute
    `uses_date = True`. Without it the date never reaches the tool, so that equal inputs of
    documents of different days are one request.

    One that has more to say to the same input says so with `pages = True`: it answers page 0 as if
    there were no pages, and "empty" after the last. No other tool is ever asked for a later page.
    """

    name: str
    version: str

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]: ...


def uses_date(tool: Tool) -> bool:
    """Whether the answers of `tool` depend on the date of the document a call stands in."""
    return bool(getattr(tool, "uses_date", False))


def has_pages(tool: Tool) -> bool:
    """Whether `tool` has more to say when it is asked the same again."""
    return bool(getattr(tool, "pages", False))


@runtime_checkable
class LoadingTool(Tool, Protocol):
    """A tool with something large to load, once, in the process that serves it."""

    def load(self) -> None: ...
