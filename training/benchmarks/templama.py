"""TempLAMA: facts that change with time (paper section 4.2.5 and Appendix C.1)."""

import datetime as dt
import re
from collections import Counter
from pathlib import Path

from tools.base import InputError
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.files import field_of, json_lines_of, string_of
from training.benchmarks.lama import completion_prompt

_PUBLISHED_AT = "https://storage.googleapis.com/gresearch/templama (train, val and test.json)"
_MASK = "_X_"
# TempLAMA knows the year of a fact, the Calendar answers with a day, and the paper says of
# neither what "today" is. In the middle of a year most facts are those of the year.
_MONTH, _DAY = 7, 1


def templama(path: Path) -> Benchmark:
    """The queries of a file of TempLAMA that end with what is to be filled in.

    A model is asked to complete the text before it, without the year: knowing "the current date
    is required", and the Calendar tells a day of that year. The group is the relation. As in LAMA
    a query with its mask elsewhere is left out: templates such as "_X_ is the head coach of ...".

    Raises:
        InputError: no such file, or a line that is broken; it names the line.
    """
    examples: dict[str, Example] = {}
    skipped: Counter[str] = Counter()
    for where, record in json_lines_of(path, from_where=_PUBLISHED_AT):
        own_id, query = string_of(record, "id", where), string_of(record, "query", where)
        if query.count(_MASK) != 1:
            raise InputError(f"{where}: the query {query!r} does not have {_MASK} once")
        text, _, after = query.partition(_MASK)
        answers = _answers(record, where)
        if after.strip() not in ("", "."):
            skipped["the mask is not the final token"] += 1
        elif not answers:
            skipped["no answer"] += 1
        elif own_id in examples:
            raise InputError(f"{where}: the id {own_id!r} was there before")
        else:
            examples[own_id] = Example(
                id=own_id,
                prompt=completion_prompt(text),
                answers=answers,
                group=string_of(record, "relation", where),
                date=dt.date(_year(record, where), _MONTH, _DAY),
            )
    return Benchmark(
        name="templama",
        examples=tuple(examples.values()),
        criterion="word_within_5",
        without_tools=(),
        skipped=dict(skipped),
    )


def _answers(record: object, where: str) -> tuple[str, ...]:
    """The names: what builds TempLAMA writes one object, what was published has a list of them."""
    found = field_of(record, "answer", where)
    entities = found if isinstance(found, list) else [found]
    names = (string_of(entity, "name", where) for entity in entities)
    return tuple(dict.fromkeys(name for name in names if name))


def _year(record: object, where: str) -> int:
    date = string_of(record, "date", where)
    if not re.fullmatch(r"[12][0-9]{3}", date):
        raise InputError(f"{where}: date is {date!r}, expected a year")
    return int(date)
