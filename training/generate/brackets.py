"""What the text after " [" is so far: the beginning of a call, a whole one, or none (section 2).

An opened bracket need not become a call: the model may write "[1]" or "[sic]", and a bracket that
`api_top_k` opened where the model wanted none often ends as nothing.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from tools.calls import ARROW, CLOSE, OPEN, ApiCall, is_tool_name, parse_call

# After these it is no call; a result is inserted at the first arrow, if that comes before them.
_DECISIVE = re.compile(b"|".join(re.escape(end.encode()) for end in (ARROW, OPEN, CLOSE, "\n")))


class Bracket(Enum):
    """An opened bracket that is no whole call."""

    UNDECIDED = "may become a call"
    NO_CALL = "cannot become a call"
    FORBIDDEN = "would become a call of a tool that must not be called"


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """What stands between " [" and " ->"."""

    text: str

    @property
    def call(self) -> ApiCall:
        """The call; its input is all after the parenthesis where `is_valid` is false."""
        name, _, rest = self.text.partition("(")
        return ApiCall(tool=name, input=rest.removesuffix(")"))

    @property
    def is_valid(self) -> bool:
        """Whether it is `Name(input)` and no more."""
        return parse_call(self.text, self.call.tool) is not None


def read_bracket(after: bytes, without_tools: Collection[str] = ()) -> Bracket | WrittenCall:
    """What the bytes after " [" are, judged by the first of them that decides it.

    That it would be a call of one of `without_tools` is known at the "(" after the name.

    A call begins with a name and "(", and is whole at its " ->". A line break, "]" or another " ["
    before that makes it none, and so does a character that is not UTF-8.
    """
    decided = _DECISIVE.search(after)
    before = after if decided is None else after[: decided.start()]
    if not _may_begin_a_call(before):
        return Bracket.NO_CALL
    name, parenthesis, _ = before.partition(b"(")
    if parenthesis and name.decode("ascii") in without_tools:
        return Bracket.FORBIDDEN
    if decided is None:
        return Bracket.UNDECIDED
    if not parenthesis or decided[0] != ARROW.encode():
        return Bracket.NO_CALL
    try:
        return WrittenCall(before.decode("utf-8"))
    except UnicodeDecodeError:
        return Bracket.NO_CALL


def _may_begin_a_call(beginning: bytes) -> bool:
    """Whether it is the beginning of a tool's name, or a whole one with "(" after it."""
    name, _, _ = beginning.partition(b"(")
    return not beginning or (name.isascii() and is_tool_name(name.decode("ascii")))
