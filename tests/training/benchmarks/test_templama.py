import datetime as dt
import json
from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.templama import templama

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "templama_like"


def row(**changes: object) -> dict[str, object]:
    manchester = {"wikidata_id": "Q18656", "name": "Manchester United F.C."}
    madrid = {"wikidata_id": "Q8682", "name": "Real Madrid CF"}
    return {
        "query": "Cristiano Ronaldo plays for _X_.",
        "answer": [madrid],
        "date": "2010",
        "id": "Q11571_P54_2010",
        "most_frequent_answer": madrid,
        "most_recent_answer": manchester,
        "relation": "P54",
    } | changes


def write(path: Path, *rows: dict[str, object]) -> Path:
    file = path / "test.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_the_text_before_the_mask_is_to_be_completed(tmp_path: Path) -> None:
    benchmark = templama(write(tmp_path, row()))
    (example,) = benchmark.examples
    assert example.prompt == (
        "Please complete the following text so that it is factually correct: "
        "Cristiano Ronaldo plays for"
    )
    assert (example.id, example.group) == ("Q11571_P54_2010", "P54")
    assert example.answers == ("Real Madrid CF",)
    assert example.date == dt.date(2010, 7, 1)
    assert (benchmark.criterion, benchmark.without_tools) == ("word_within_5", ())


def test_an_answer_is_one_object_or_a_list(tmp_path: Path) -> None:
    one = row(answer={"wikidata_id": "Q8682", "name": "Real Madrid CF"}, id="1")
    two = row(answer=[{"name": "B"}, {"name": "A"}, {"name": "B"}], id="2")
    answers = [example.answers for example in templama(write(tmp_path, one, two)).examples]
    assert answers == [("Real Madrid CF",), ("B", "A")]


def test_what_has_its_mask_elsewhere_is_counted(tmp_path: Path) -> None:
    queries = [
        "_X_ is the head coach of Ajax.",
        "Ann is a member of the _X_ party.",
        "Ann is a member of the _X_.",
        "Ann attended _X_",
    ]
    rows = [row(query=query, id=str(number)) for number, query in enumerate(queries)]
    rows.append(row(answer=[], id="9"))
    benchmark = templama(write(tmp_path, *rows))
    assert [example.prompt.rpartition(": ")[2] for example in benchmark.examples] == [
        "Ann is a member of the",
        "Ann attended",
    ]
    assert benchmark.skipped == {"the mask is not the final token": 2, "no answer": 1}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"query": "Ann plays for"}, "the query 'Ann plays for' does not have _X_ once"),
        ({"query": "_X_ plays for _X_."}, "the query '_X_ plays for _X_.' does not have _X_ once"),
        ({"answer": ["Ajax"]}, "expected a JSON object, got str"),
        ({"date": "May 2010"}, "date is 'May 2010', expected a year"),
        ({"date": 2010}, "date is int, expected a string"),
        ({"id": "Q11571_P54_2010"}, "the id 'Q11571_P54_2010' was there before"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, changes: dict[str, object], what: str) -> None:
    file = write(tmp_path, row(), row(id="2", **changes) if "id" not in changes else row())
    with pytest.raises(InputError) as caught:
        templama(file)
    assert str(caught.value) == f"{file}:2: {what}"


@pytest.mark.shared_data
def test_real_facts_are_all_asked() -> None:
    """Facts of YAGO in TempLAMA's layout, each with the answer of its year."""
    path = REAL / "yago15k_templama.jsonl"
    if not path.exists():
        pytest.skip(f"no real facts at {path}")
    benchmark = templama(path)
    assert (len(benchmark.examples), benchmark.skipped) == (500, {})
    first = benchmark.examples[0]
    assert first.prompt.endswith(": Craig Davies plays for")
    assert (first.answers, first.date) == (("Oxford United F.C.",), dt.date(2004, 7, 1))
    assert not any("_X_" in example.prompt for example in benchmark.examples)


@pytest.mark.shared_data
def test_three_of_the_real_templates_have_their_mask_first(tmp_path: Path) -> None:
    path = REAL / "templama_templates.csv"
    if not path.exists():
        pytest.skip(f"no real templates at {path}")
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    rows = []
    for line in lines:
        relation, _, template = line.split(",", 2)
        query = template.replace("<subject>", "Ann").replace("<object>", "_X_")
        rows.append(row(query=query, relation=relation, id=relation))
    benchmark = templama(write(tmp_path, *rows))
    assert [example.group for example in benchmark.examples] == [
        "P54", "P39", "P108", "P102", "P69", "P127",
    ]  # fmt: skip
    assert benchmark.skipped == {"the mask is not the final token": 3}
