"""LAMA: its subsets SQuAD, Google-RE and T-REx (paper section 4.2.1 and Appendix C.1).

Each is read from the directory `data` that LAMA publishes. What LAMA's own scripts leave out of
a subset for every model is left out here too: facts that come again in a relation, and facts of
Google-RE that more people judged false than true. Its filters by the vocabularies of models are
not applied.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.base import InputError
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.files import field_of, json_lines_of, list_of, string_of

_PUBLISHED_AT = "https://dl.fbaipublicfiles.com/LAMA/data.zip"
_MASK, _SUBJECT, _OBJECT = "[MASK]", "[X]", "[Y]"
# LAMA's scripts hold these; those of T-REx stand in relations.jsonl.
_GOOGLE_RE_TEMPLATES = {
    "place_of_birth": "[X] was born in [Y] .",
    "date_of_birth": "[X] (born [Y]).",
    "place_of_death": "[X] died in [Y] .",
}
# In relations.jsonl, but without a file of facts: the other 41 are T-REx.
_NOT_PUBLISHED = frozenset({"P54", "P69", "P102", "P166", "P1923"})

_NOT_FINAL = "the mask is not the final token"
_SEVERAL_MASKS = "there are several masks"
_FACT_AGAIN = "the fact was there before"
_ID_AGAIN = "its id was there before"
_JUDGED_FALSE = "more judged it false than true"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    id: str
    subject: str
    object: str
    is_judged_false: bool = False


def completion_prompt(text: str) -> str:
    """What a model is asked, which it goes on with: the text before the mask is its end."""
    return "Please complete the following text so that it is factually correct: " + text.strip()


def lama_squad(path: Path) -> Benchmark:
    """The statements of SQuAD in `path`/Squad whose mask is final; they are one group.

    Raises:
        InputError: no such file, or a line that is broken; it names the line.
    """
    examples: dict[str, Example] = {}
    skipped: Counter[str] = Counter()
    for where, record in json_lines_of(path / "Squad" / "test.jsonl", from_where=_PUBLISHED_AT):
        sentences = list_of(record, "masked_sentences", where)
        before, mask, after = " ".join(map(str, sentences)).rpartition(_MASK)
        own_id, answer = _name(record, "id", where), _name(record, "obj_label", where)
        if not mask:
            raise InputError(f"{where}: masked_sentences has no {_MASK}")
        if _MASK in before:
            skipped[_SEVERAL_MASKS] += 1
        elif not _is_end(after):
            skipped[_NOT_FINAL] += 1
        elif own_id in examples:
            skipped[_ID_AGAIN] += 1
        else:
            prompt = completion_prompt(before)
            examples[own_id] = Example(id=own_id, prompt=prompt, answers=(answer,), group="squad")
    return _benchmark("lama_squad", examples.values(), skipped)


def lama_google_re(path: Path) -> Benchmark:
    """The facts in `path`/Google_RE by the templates of LAMA; the group is the relation.

    Dates of birth are left out: their mask is in brackets.

    Raises:
        InputError: a file is missing, or has a line that is broken; it names the line.
    """
    skipped: Counter[str] = Counter()
    examples: list[Example] = []
    for relation, template in _GOOGLE_RE_TEMPLATES.items():
        lines = json_lines_of(
            path / "Google_RE" / f"{relation}_test.jsonl", from_where=_PUBLISHED_AT
        )
        facts = (
            _Fact(
                id=_name(record, "uuid", where),
                subject=_name(record, "sub_label", where),
                object=_name(record, "obj_label", where),
                is_judged_false=_is_judged_false(record, where),
            )
            for where, record in lines
        )
        examples += _completions(relation, template, facts, skipped)
    return _benchmark("lama_google_re", examples, skipped)


def lama_t_rex(path: Path) -> Benchmark:
    """The facts in `path`/TREx by the templates of relations.jsonl; the group is the relation.

    Raises:
        InputError: a file is missing, or has a line that is broken; it names the line.
    """
    skipped: Counter[str] = Counter()
    examples: list[Example] = []
    for where, record in json_lines_of(path / "relations.jsonl", from_where=_PUBLISHED_AT):
        relation, template = _name(record, "relation", where), _name(record, "template", where)
        if template.count(_SUBJECT) != 1 or template.count(_OBJECT) != 1:
            raise InputError(f"{where}: template {template!r} needs {_SUBJECT} and {_OBJECT} once")
        if relation in _NOT_PUBLISHED:
            continue
        lines = json_lines_of(path / "TREx" / f"{relation}.jsonl", from_where=_PUBLISHED_AT)
        facts = (
            _Fact(
                id=_name(fact, "uuid", at),
                subject=_name(fact, "sub_label", at),
                object=_name(fact, "obj_label", at),
            )
            for at, fact in lines
        )
        examples += _completions(relation, template, facts, skipped)
    return _benchmark("lama_t_rex", examples, skipped)


def _completions(
    relation: str, template: str, facts: Iterable[_Fact], skipped: Counter[str]
) -> Iterator[Example]:
    before, _, after = template.partition(_OBJECT)
    seen: set[tuple[str, str]] = set()
    ids: set[str] = set()
    for fact in facts:
        if not _is_end(after):
            skipped[_NOT_FINAL] += 1
        elif fact.is_judged_false:
            skipped[_JUDGED_FALSE] += 1
        elif (fact.subject, fact.object) in seen:
            skipped[_FACT_AGAIN] += 1
        elif fact.id in ids:
            skipped[_ID_AGAIN] += 1
        else:
            seen.add((fact.subject, fact.object))
            ids.add(fact.id)
            yield Example(
                id=f"{relation}/{fact.id}",
                prompt=completion_prompt(before.replace(_SUBJECT, fact.subject)),
                answers=(fact.object,),
                group=relation,
            )


def _is_end(after: str) -> bool:
    """Whether what follows a mask leaves it the final token.

    The paper leaves open what else may follow. Nearly every statement of LAMA ends with a full
    stop, so that one is none.
    """
    return after.strip() in ("", ".", "?", "!")


def _is_judged_false(record: object, where: str) -> bool:
    votes = Counter(
        field_of(judgment, "judgment", where) == "yes"
        for judgment in list_of(record, "judgments", where)
    )
    return votes[False] > votes[True]


def _name(record: object, key: str, where: str) -> str:
    name = string_of(record, key, where)
    if not name:
        raise InputError(f"{where}: {key} is empty")
    return name


def _benchmark(name: str, examples: Iterable[Example], skipped: Counter[str]) -> Benchmark:
    return Benchmark(
        name=name,
        examples=tuple(examples),
        criterion="word_within_5",
        # "LAMA is based on statements obtained directly from Wikipedia."
        without_tools=("WikiSearch",),
        skipped=dict(skipped),
    )
