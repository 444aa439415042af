"""Web Questions, Natural Questions and TriviaQA (paper section 4.2.3 and Appendix C.3).

Each is read as it was published, or as the lines of {"id", "question", "answers"} in which Dense
Passage Retrieval shares all three: a file that ends in .jsonl. The paper does not name the splits
it reports. Brown et al. (2020), whom it follows, take the test set of Web Questions (2,032), the
development set of NQ-open (3,610) and, of TriviaQA, unfiltered questions.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tools.base import InputError
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.files import (
    field_of,
    json_lines_of,
    json_of,
    list_of,
    string_of,
    strings_of,
)

_PROMPT = "Answer the following question: "
# The tool "would make solving the tasks trivial".
_WITHOUT_TOOLS = ("QA",)

_WEB_QUESTIONS_AT = "https://nlp.stanford.edu/software/sempre (webquestions.examples.test.json)"
_NATURAL_QUESTIONS_AT = (
    "https://github.com/google-research-datasets/natural-questions (nq_open/NQ-open.dev.jsonl)"
)
_TRIVIA_QA_AT = "https://nlp.cs.washington.edu/triviaqa (triviaqa-unfiltered.tar.gz)"

# (description "Jaxon Bieber") or, where it is one word, (description Brazil)
_DESCRIPTION = r'\(description (?:"((?:[^"\\]|\\.)*)"|([^\s"()]+))\)'
_DESCRIPTIONS = re.compile(_DESCRIPTION)
_TARGET = re.compile(rf"\(list(?: {_DESCRIPTION})*\)")

# Its id, the question, the answers: all three without spaces around them.
_Question: TypeAlias = tuple[str, str, tuple[str, ...]]


def question_prompt(question: str) -> str:
    """What a model is asked: the question with the paper's words before it.

    "We append a question mark if the question does not already end with one."
    """
    question = question.strip()
    return _PROMPT + question + ("" if question.endswith("?") else "?")


def web_questions(path: Path) -> Benchmark:
    """Web Questions, in the layout of Stanford or in that of brmson.

    Stanford publishes an array of {"utterance", "targetValue"}, brmson one of
    {"qId", "qText", "answers"}; lines are those of Dense Passage Retrieval.

    Raises:
        InputError: no such file, or one that is broken; it names the question.
    """
    if path.suffix == ".jsonl":
        return _lines("web_questions", path, _shared, from_where=_WEB_QUESTIONS_AT)
    records = json_of(path, from_where=_WEB_QUESTIONS_AT)
    if not isinstance(records, list):
        raise InputError(f"{path}: expected a JSON array, got {type(records).__name__}")
    return _benchmark("web_questions", map(_web_question, _numbered(path, records)))


def natural_questions(path: Path) -> Benchmark:
    """Natural Questions, open: lines of {"question", "answer"}, or of Dense Passage Retrieval.

    Raises:
        InputError: no such file, or one that is broken; it names the line.
    """
    return _lines("natural_questions", path, _natural_question, from_where=_NATURAL_QUESTIONS_AT)


def trivia_qa(path: Path) -> Benchmark:
    """TriviaQA: its {"Data": [...]} of questions, or the lines of Dense Passage Retrieval.

    Right is the answer's value, and any of its aliases.

    Raises:
        InputError: no such file, or one that is broken; it names the question.
    """
    if path.suffix == ".jsonl":
        return _lines("trivia_qa", path, _shared, from_where=_TRIVIA_QA_AT)
    records = list_of(json_of(path, from_where=_TRIVIA_QA_AT), "Data", str(path))
    return _benchmark("trivia_qa", map(_trivia_question, _numbered(path, records)))


def _lines(
    name: str, path: Path, parse: Callable[[tuple[str, Any]], _Question], *, from_where: str
) -> Benchmark:
    return _benchmark(name, map(parse, json_lines_of(path, from_where=from_where)))


def _numbered(path: Path, records: list[Any]) -> Iterator[tuple[str, Any]]:
    for number, record in enumerate(records, start=1):
        yield f"{path}: question {number}", record


def _benchmark(name: str, questions: Iterable[_Question]) -> Benchmark:
    examples: dict[str, Example] = {}
    skipped: Counter[str] = Counter()
    for own_id, question, answers in questions:
        if own_id in examples:
            skipped["its id was there before"] += 1
        elif not answers:
            skipped["no answer"] += 1
        else:
            examples[own_id] = Example(
                id=own_id, prompt=question_prompt(question), answers=answers, group=name
            )
    return Benchmark(
        name=name,
        examples=tuple(examples.values()),
        criterion="answer_within_20",
        without_tools=_WITHOUT_TOOLS,
        skipped=dict(skipped),
    )


def _shared(line: tuple[str, Any]) -> _Question:
    where, record = line
    own_id = str(field_of(record, "id", where))
    return own_id, string_of(record, "question", where), strings_of(record, "answers", where)


def _natural_question(line: tuple[str, Any]) -> _Question:
    where, record = line
    if isinstance(record, dict) and "answers" in record:
        return _shared(line)
    # NQ-open has no ids: the number of the line stands for one.
    number = where.rpartition(":")[2]
    return number, string_of(record, "question", where), strings_of(record, "answer", where)


def _web_question(line: tuple[str, Any]) -> _Question:
    where, record = line
    if isinstance(record, dict) and "qText" in record:
        own_id = string_of(record, "qId", where)
        return own_id, string_of(record, "qText", where), strings_of(record, "answers", where)
    target = string_of(record, "targetValue", where)
    if not _TARGET.fullmatch(target):
        raise InputError(f"{where}: targetValue is {target!r}, expected (list (description ...))")
    answers = (
        re.sub(r"\\(.)", r"\1", quoted).strip() or bare
        for quoted, bare in _DESCRIPTIONS.findall(target)
    )
    different = tuple(dict.fromkeys(answer for answer in answers if answer))
    number = where.rpartition(" ")[2]
    return number, string_of(record, "utterance", where), different


def _trivia_question(line: tuple[str, Any]) -> _Question:
    where, record = line
    answer = field_of(record, "Answer", where)
    value = string_of(answer, "Value", where)
    aliases = strings_of(answer, "Aliases", where)
    answers = tuple(dict.fromkeys((value, *aliases))) if value else aliases
    return string_of(record, "QuestionId", where), string_of(record, "Question", where), answers
