"""Which tools a document is offered to (paper section 4.1 and Appendix A.1).

An offer decides where the language model is asked for calls; it is where most of the work is
saved. Every offer carries the reason it was made for.
"""

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.config import MT
from pipeline.documents.numeric import has_relation, numbers

MIN_NUMBERS = 3
SAMPLE_RATE = 0.01  # of texts with three numbers and nothing else to speak for them
_SAMPLE_SALT = "calculator-sample:"
_CURRENCY = "[$\u20ac\u00a3\u00a5]?"
# "=" fires on a query string ("?id=5") as well; the paper's rule does not exclude it.
_CUE = re.compile(
    r"(?:=|\b(?:equals|equal\s+to|total\s+of|average\s+of)\b)\s*-?" + _CURRENCY + r"-?\.?[0-9]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFacts:
    """What the heuristics look at."""

    text: str
    doc_id: str
    date: dt.date | None  # from the URL
    has_foreign_text: bool = False  # a paragraph of it is for MT (documents.foreign_text)


# Why a document is offered, or None.
Heuristic = Callable[[DocumentFacts], str | None]


def calculator_reason(facts: DocumentFacts) -> str | None:
    """ "cue", "relation" or "sample": criteria (ii), (i) and (iii) of the paper; cheapest first."""
    if _CUE.search(facts.text):
        return "cue"
    found = numbers(facts.text)
    if len(found) < MIN_NUMBERS:
        return None
    if has_relation(found):
        return "relation"
    return "sample" if _uniform(_SAMPLE_SALT + facts.doc_id) < SAMPLE_RATE else None


def calendar_reason(facts: DocumentFacts) -> str | None:
    """ "url_date" if the document's URL tells its date: texts without one are left out."""
    return None if facts.date is None else "url_date"


def mt_reason(facts: DocumentFacts) -> str | None:
    """ "foreign_text" if there is some between English text; only its paragraphs are read."""
    return "foreign_text" if facts.has_foreign_text else None


HEURISTICS: Mapping[str, Heuristic] = {
    "Calculator": calculator_reason,
    "Calendar": calendar_reason,
    MT: mt_reason,
}


def offered_tools(facts: DocumentFacts, tools: Sequence[str]) -> list[tuple[str, str]]:
    """(tool, reason) of every one of `tools` the document is offered to, in their order.

    A tool without a heuristic is offered every document, with the reason "all".
    """
    reasons = ((tool, HEURISTICS[tool](facts) if tool in HEURISTICS else "all") for tool in tools)
    return [(tool, reason) for tool, reason in reasons if reason is not None]


def _uniform(key: str) -> float:
    """A number in [0, 1) that depends on `key` alone, whichever worker asks."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
