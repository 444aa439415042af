"""The Calendar tool, and the date of a document (paper section 3 and Appendix A.1).

While C* is made, "today" is the day the document was written, taken from its URL. Only a whole
date will do, since the answer names the weekday.
"""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from tools.base import ToolRequest, ToolResult

# Our own names: strftime's change with the locale.
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_EARLIEST = dt.date(1995, 1, 1)  # before it, a date in a URL is not when a web page was written

_MONTH_NUMBERS = {name[:3].lower(): number for number, name in enumerate(_MONTHS, start=1)}
_QUERY_KEYS = ("date", "day", "dt", "published", "pubdate", "publish_date")

_NOT_IN_WORD, _NOT_IN_NUMBER = r"(?<![0-9A-Za-z])", r"(?![0-9])"
_Y = r"(?P<year>(?:19|20)[0-9]{2})"
# In full or shortened: "september", "sept", "sep".
_NAMES = "|".join(f"{name[:3]}(?:{name[3:]}|{name[3:4]})?" for name in _MONTHS)
_MON = rf"(?P<name>{_NAMES})"
_M, _D = r"(?P<month>0?[1-9]|1[0-2])", r"(?P<day>0?[1-9]|[12][0-9]|3[01])"
_MM, _DD = r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[T_-]?(?:[01][0-9]|2[0-3])[0-5][0-9](?:[0-5][0-9])?)?"
# After a day between slashes its path segment ends: /2023/10/3-questions-for-... is no date.
_SEGMENT_END = r"(?=/|\.[A-Za-z]|\Z)"

# In order of trust. Not here because they cannot be told apart: days and months as numbers
# before the year (03-04-2017), and digits inside a longer number.
_RULES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_NOT_IN_WORD}{_Y}/{_M}/{_D}{_SEGMENT_END}",
        rf"{_NOT_IN_WORD}{_Y}(?P<sep>[-_.]){_M}(?P=sep){_D}{_NOT_IN_NUMBER}",
        rf"/{_Y}/{_MM}{_DD}{_SEGMENT_END}",
        rf"/{_Y}-{_MM}/{_D}{_SEGMENT_END}",
        rf"/{_Y}/{_MM}-{_DD}{_NOT_IN_NUMBER}",
        rf"/{_Y}/{_MON}/{_D}{_SEGMENT_END}",
        rf"{_NOT_IN_WORD}{_D}(?P<sep>[-_/. ]){_MON}(?P=sep){_Y}{_NOT_IN_NUMBER}",
        rf"{_NOT_IN_WORD}{_MON}(?P<sep>[-_/. ]){_D}(?:, |(?P=sep)){_Y}{_NOT_IN_NUMBER}",
        rf"{_NOT_IN_WORD}{_Y}{_MM}{_DD}{_TIME}(?![0-9A-Za-z])",
    )
)


def format_date(date: dt.date) -> str:
    """What the calendar answers: "Today is Monday, January 30, 2023."."""
    weekday, month = _WEEKDAYS[date.weekday()], _MONTHS[date.month - 1]
    return f"Today is {weekday}, {month} {date.day}, {date.year:04d}."


def date_from_url(url: str, *, not_after: dt.date | None) -> dt.date | None:
    """The whole date that stands in the path of `url`, or in a query key that names a date.

    None without one. Only a day from 1995 on and no later than `not_after` (when the page was
    crawled) counts; the first such date wins, in the order of the rules.
    """
    for text in _searched_parts(url):
        for rule in _RULES:
            for match in rule.finditer(text):
                date = _date(match)
                if date is not None and _EARLIEST <= date <= (not_after or date):
                    return date
    return None


class CalendarTool:
    """Answers with the date of the document the call stands in; takes no input."""

    name = "Calendar"
    version = "1"
    uses_date = True

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [_answer(request) for request in requests]


def _answer(request: ToolRequest) -> ToolResult:
    if request.input.strip():
        return ToolResult.invalid("the calendar takes no input")
    if request.date is None:
        return ToolResult.empty("the date of the document is not known")
    return ToolResult.ok(format_date(request.date))


def _searched_parts(url: str) -> Iterator[str]:
    """The decoded path, then the values of the query keys that name a date; no host name."""
    try:
        parts = urlsplit(url.strip().strip("<>"))
    except ValueError:  # brackets that are no IPv6 address, and the like
        return
    yield unquote(parts.path if parts.netloc else "/" + parts.path.partition("/")[2])
    for key, value in parse_qsl(parts.query):
        if key.lower() in _QUERY_KEYS:
            yield value


def _date(match: re.Match[str]) -> dt.date | None:
    found = match.groupdict()
    month = int(found["month"]) if "month" in found else _MONTH_NUMBERS[found["name"][:3].lower()]
    try:
        return dt.date(int(found["year"]), month, int(found["day"]))
    except ValueError:  # the 31st of June
        return None
