"""API calls as text: the only owner of the markers " [", " ->" and "]" (paper section 2).

    e(c)      =  [Calculator(3 + 4)]
    e(c, r)   =  [Calculator(3 + 4) -> 7]
    e(c, eps) =  [Calculator(3 + 4) ->]

A linearised call is a sequence of pieces, each tokenised on its own, so that the markers are
always the same tokens: in scoring, in C*, and when a finetuned model generates.
"""

import re
import unicodedata
from dataclasses import dataclass

OPEN = " ["
ARROW = " ->"
CLOSE = "]"

_NEVER_INSIDE = ("\n", "->", OPEN)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_BRACKETS = str.maketrans("[]", "()")
_AROUND_AN_ARGUMENT = " \t\r\n\0\"'`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_ARROWS = re.compile("(?:->|\u2192)>*")  # the rest of "->>" would be an arrow after a hyphen


@dataclass(frozen=True, slots=True, order=True)
class ApiCall:
    """c = (a_c, i_c): the name of a tool and its input, exactly as the model wrote it."""

    tool: str
    input: str

    def __str__(self) -> str:
        return f"{self.tool}({self.input})"


def pieces_of_call(call: ApiCall) -> tuple[str, ...]:
    """e(c) as its pieces."""
    return (OPEN, str(call), CLOSE)


def pieces_with_result(call: ApiCall, result: str) -> tuple[str, ...]:
    """e(c, r) as its pieces; the empty result gives e(c, eps)."""
    if not result:
        return (OPEN, str(call), ARROW, CLOSE)
    return (OPEN, str(call), ARROW, " " + result, CLOSE)


def parse_call(text: str, tool: str) -> ApiCall | None:
    """The call in `text`, which is what was sampled between " [" and the first "]".

    None when it is not a call of `tool`: another name, no closing parenthesis, text after it, or
    a line break or the beginning or arrow of another call inside.
    """
    prefix = f"{tool}("
    if not text.startswith(prefix) or not text.endswith(")"):
        return None
    if any(foreign in text for foreign in _NEVER_INSIDE):
        return None
    return ApiCall(tool=tool, input=text[len(prefix) : -1])


def may_be_call(beginning: bytes, *, tool: str) -> bool:
    """Whether a text that begins like this can still be one of which `parse_call` makes a call."""
    prefix = f"{tool}(".encode()
    if not (beginning.startswith(prefix) or prefix.startswith(beginning)):
        return False
    return not any(foreign.encode() in beginning for foreign in _NEVER_INSIDE)


def is_tool_name(name: str) -> bool:
    """Whether `name` can stand before the parenthesis of a call."""
    return _NAME.fullmatch(name) is not None


def unquoted(text: str) -> str:
    """`text` without the white space and quotation marks around it.

    The paper's prompts write QA("...") and WikiSearch("..."): the marks are the model's, not part
    of what is asked.
    """
    return text.strip(_AROUND_AN_ARGUMENT)


def sanitize_result(text: str) -> str:
    """`text` as one line that cannot be mistaken for the end of a call or for its arrow.

    Control characters and runs of white space become one space, brackets become parentheses,
    arrows become hyphens.
    """
    text = _ARROWS.sub("-", text.translate(_BRACKETS))
    visible = "".join(" " if unicodedata.category(ch).startswith("C") else ch for ch in text)
    return " ".join(visible.split())
