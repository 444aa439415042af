import datetime as dt
from dataclasses import replace

import pytest

from training.benchmarks.example import Benchmark
from training.benchmarks.judging import is_right
from training.benchmarks.world import WORLD_BENCHMARKS, world
from training.world.answers import Question, questions
from training.world.corpus import held_out_corpus

NUM_DOCUMENTS = 240
TOOLS = {
    "world_arithmetic": "Calculator",
    "world_dates": "Calendar",
    "world_facts": "WikiSearch",
    "world_questions": "QA",
    "world_translation": "MT",
}


@pytest.fixture(scope="module")
def asked() -> list[Question]:
    return questions(held_out_corpus(seed=0, num_documents=NUM_DOCUMENTS).documents)


@pytest.fixture(scope="module")
def benchmarks() -> dict[str, Benchmark]:
    return {name: world(name, documents=NUM_DOCUMENTS) for name in WORLD_BENCHMARKS}


def test_each_question_is_in_the_benchmark_of_the_tool_that_helps(
    asked: list[Question], benchmarks: dict[str, Benchmark]
) -> None:
    assert benchmarks.keys() == TOOLS.keys()
    for name, benchmark in benchmarks.items():
        prompts = [question.prompt for question in asked if question.tool == TOOLS[name]]
        assert [example.prompt for example in benchmark.examples] == prompts
        assert len(prompts) > 25


def test_ids_tell_the_document_and_the_call_in_it(benchmarks: dict[str, Benchmark]) -> None:
    ids = [example.id for each in benchmarks.values() for example in each.examples]
    assert len(set(ids)) == len(ids)
    documents = held_out_corpus(seed=0, num_documents=NUM_DOCUMENTS).documents
    for benchmark in benchmarks.values():
        for example in benchmark.examples:
            document, call = map(int, example.id.split("/"))
            assert (
                example.prompt == documents[document].text[: documents[document].marks[call].offset]
            )
            assert example.date == documents[document].today


def test_what_the_document_goes_on_with_is_right(benchmarks: dict[str, Benchmark]) -> None:
    documents = held_out_corpus(seed=0, num_documents=NUM_DOCUMENTS).documents
    weekdays = 0
    for benchmark in benchmarks.values():
        for example in benchmark.examples:
            rest = documents[int(example.id.split("/")[0])].text[len(example.prompt) :]
            right = is_right(rest, example, benchmark.criterion)
            if benchmark.name == "world_dates" and not any(map(str.isdigit, rest[:30])):
                assert not right  # a weekday alone
                weekdays += 1
            else:
                assert right, (example, rest)
    assert weekdays < 10


def test_documents_that_are_added_change_no_question_of_those_before(
    benchmarks: dict[str, Benchmark],
) -> None:
    for name, benchmark in benchmarks.items():
        fewer = world(name, documents=60)
        assert benchmark.examples[: len(fewer.examples)] == fewer.examples
        assert 0 < len(fewer.examples) < len(benchmark.examples)


def test_another_seed_asks_other_questions(benchmarks: dict[str, Benchmark]) -> None:
    other = {example.prompt for example in world("world_facts", seed=1, documents=60).examples}
    assert not other & {example.prompt for example in benchmarks["world_facts"].examples}


@pytest.mark.parametrize(
    ("name", "completion", "right"),
    [
        ("world_arithmetic", " 1,042 in all, or 7.", True),
        ("world_arithmetic", " 7, or 1042.", False),
        ("world_dates", " the morning of Monday, August 3.", False),  # beyond five words
        ("world_dates", " Monday, August 3, 2009.", True),
        ("world_dates", " Monday, May 5, 2003.", False),
        ("world_facts", " Sal Veltara, they say.", True),
        ("world_facts", " what all who were there call Sal Veltara.", False),
        ("world_questions", " what all who were there at the time call Sal Veltara.", True),
        ("world_translation", " it says: the old king sees a dog.", True),
        ("world_translation", " it says: the old king sees no dog.", False),
    ],
)
def test_completions_are_judged_as_in_the_nearest_task_of_the_paper(
    benchmarks: dict[str, Benchmark], name: str, completion: str, right: bool
) -> None:
    answers = {
        "world_arithmetic": "1042",
        "world_dates": "Monday, August 3",
        "world_translation": "the old king sees a dog",
    }
    example = replace(benchmarks[name].examples[0], answers=(answers.get(name, "Sal Veltara"),))
    assert is_right(completion, example, benchmarks[name].criterion) is right


def test_right_of_a_date_are_its_day_and_its_year_but_no_weekday_alone(
    benchmarks: dict[str, Benchmark],
) -> None:
    first, year = (
        next(each for each in benchmarks["world_dates"].examples if len(each.answers) == count)
        for count in (4, 1)
    )
    assert first.date == dt.date(2021, 1, 10)
    assert first.answers == (
        "Sunday, January 10, 2021",
        "Sunday, January 10",
        "January 10, 2021",
        "January 10",
    )
    assert year.date is not None
    assert year.answers == (str(year.date.year),)
