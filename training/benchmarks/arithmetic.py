"""The math benchmarks ASDiv, SVAMP and MAWPS (paper section 4.2.2 and Appendix C.2)."""

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tools.base import InputError
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.files import field_of, json_lines_of, json_of, string_of, text_of
from training.benchmarks.judging import number_of

_ASDIV_AT = "https://github.com/chaochun/nlu-asdiv-dataset (dataset/ASDiv.xml)"
_SVAMP_AT = "https://github.com/arkilpatel/SVAMP (SVAMP.json)"
_MAWPS_AT = "https://github.com/reasoning-machines/pal (datasets)"
_MAWPS_PARTS = ("addsub", "multiarith", "singleeq", "singleop")
_UNIT = re.compile(r"\s*\([^()]*\)$")  # "9 (apples)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    id: str
    context: str  # "" where a benchmark does not tell it from the question
    question: str
    answer: str
    group: str


def math_prompt(context: str, question: str) -> str:
    """What a model is asked, which it goes on with: both in one line, with the paper's words.

    They are parted by a space alone, as in the paper, also where the context has no full stop.
    """
    return " ".join(f"{context} {question} The answer is".split())


def asdiv(path: Path) -> Benchmark:
    """The problems of ASDiv.xml whose answer is one number; the group is the type of solution.

    Raises:
        InputError: no such file, or it is broken; it names the line or the problem.
    """
    return _benchmark("asdiv", _asdiv_problems(path))


def svamp(path: Path) -> Benchmark:
    """The problems of SVAMP.json; the group is the type of problem.

    Raises:
        InputError: no such file, or it is broken; it names the line or the problem.
    """
    return _benchmark("svamp", _svamp_problems(path))


def mawps(path: Path) -> Benchmark:
    """The problems of the four files of MAWPS in the directory `path`; a file is a group.

    They are mawpsaddsub.jsonl, mawpsmultiarith.jsonl, mawpssingleeq.jsonl and mawpssingleop.jsonl.
    The paper leaves open which problems of MAWPS it asks: here it is all of these, and one that
    stands in two files counts in both.

    Raises:
        InputError: a file is missing, or has a line that is broken; it names the line.
    """
    return _benchmark("mawps", _mawps_problems(path))


def _asdiv_problems(path: Path) -> Iterator[_Problem]:
    try:
        root = ET.fromstring(text_of(path, from_where=_ASDIV_AT))
    except ET.ParseError as error:
        raise InputError(f"{path}:{error.position[0]}: not XML: {error}") from None
    problems = list(root.iter("Problem"))
    if not problems:
        raise InputError(f"{path}: has no Problem")
    for number, problem in enumerate(problems, start=1):
        own_id = problem.get("ID")
        if own_id is None:
            raise InputError(f"{path}: problem {number} has no ID")
        where = f"{path}: problem {own_id}"
        yield _Problem(
            id=own_id,
            context=_child(problem, "Body", where),
            question=_child(problem, "Question", where),
            answer=_UNIT.sub("", _child(problem, "Answer", where)),
            group=_child(problem, "Solution-Type", where),
        )


def _child(problem: ET.Element, tag: str, where: str) -> str:
    text = problem.findtext(tag)
    if text is None:
        raise InputError(f"{where}: no {tag}")
    return text.strip()


def _svamp_problems(path: Path) -> Iterator[_Problem]:
    records = json_of(path, from_where=_SVAMP_AT)
    if not isinstance(records, list):
        raise InputError(f"{path}: expected a JSON array, got {type(records).__name__}")
    for number, record in enumerate(records, start=1):
        where = f"{path}: problem {number}"
        yield _Problem(
            id=string_of(record, "ID", where),
            context=string_of(record, "Body", where),
            question=string_of(record, "Question", where),
            answer=_plain_number(record, "Answer", where),
            group=string_of(record, "Type", where),
        )


def _mawps_problems(path: Path) -> Iterator[_Problem]:
    for part in _MAWPS_PARTS:
        for where, record in json_lines_of(path / f"mawps{part}.jsonl", from_where=_MAWPS_AT):
            yield _Problem(
                id=f"{part}/{where.rpartition(':')[2]}",  # has no ids: the number of the line
                context="",
                question=string_of(record, "input", where),
                answer=_plain_number(record, "target", where),
                group=part,
            )


def _plain_number(record: object, key: str, where: str) -> str:
    """The number under a key without an exponent, and without decimals that are zero."""
    value = field_of(record, key, where)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{where}: {key} is {value!r}, expected a number")
    return format(Decimal(repr(value)).normalize(), "f")


def _benchmark(name: str, problems: Iterable[_Problem]) -> Benchmark:
    examples: dict[str, Example] = {}
    skipped: Counter[str] = Counter()
    for problem in problems:
        if number_of(problem.answer) is None:
            # "The required output is always a number."
            skipped["the answer is not one number"] += 1
        elif problem.id in examples:
            skipped["its id was there before"] += 1
        else:
            examples[problem.id] = Example(
                id=problem.id,
                prompt=math_prompt(problem.context, problem.question),
                answers=(problem.answer,),
                group=problem.group,
            )
    return Benchmark(
        name=name,
        examples=tuple(examples.values()),
        criterion="number",
        without_tools=(),
        skipped=dict(skipped),
    )
