import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.example import Benchmark
from training.benchmarks.questions import (
    natural_questions,
    question_prompt,
    trivia_qa,
    web_questions,
)

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"


def asked(benchmark: Benchmark) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(example.id, example.prompt, example.answers) for example in benchmark.examples]


@pytest.mark.parametrize("question", ["who won", "who won?", " who won \n", "who won? "])
def test_a_question_ends_with_one_question_mark(question: str) -> None:
    assert question_prompt(question) == "Answer the following question: who won?"


def test_web_questions_of_stanford_give_quoted_and_bare_answers(tmp_path: Path) -> None:
    path = tmp_path / "webquestions.examples.test.json"
    rows = [
        {
            "url": "http://www.freebase.com/view/en/justin_bieber",
            "targetValue": '(list (description "Jazmyn Bieber") (description "Jaxon Bieber"))',
            "utterance": "what is the name of justin bieber brother?",
        },
        {"targetValue": "(list (description Brazil) (description Brazil))", "utterance": "where"},
        {"targetValue": r'(list (description "Dwayne \"The Rock\" (actor)"))', "utterance": "who"},
        {"targetValue": '(list (description ""))', "utterance": "what?"},
    ]
    path.write_text(json.dumps(rows))
    benchmark = web_questions(path)
    prompt = "Answer the following question: "
    assert asked(benchmark) == [
        (
            "1",
            prompt + "what is the name of justin bieber brother?",
            ("Jazmyn Bieber", "Jaxon Bieber"),
        ),
        ("2", prompt + "where?", ("Brazil",)),
        ("3", prompt + "who?", ('Dwayne "The Rock" (actor)',)),
    ]
    assert benchmark.skipped == {"no answer": 1}
    assert benchmark.criterion == "answer_within_20"
    assert {example.group for example in benchmark.examples} == {"web_questions"}


def test_web_questions_of_brmson_and_of_lines_are_asked_alike(tmp_path: Path) -> None:
    array, lines = tmp_path / "test.json", tmp_path / "test.jsonl"
    array.write_text(json.dumps([{"qId": "7", "qText": "who?", "answers": ["Ann", " Ann "]}]))
    lines.write_text(json.dumps({"id": 7, "question": "who?", "answers": ["Ann"]}) + "\n")
    expected = [("7", "Answer the following question: who?", ("Ann",))]
    assert asked(web_questions(array)) == asked(web_questions(lines)) == expected


def test_natural_questions_are_named_by_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "NQ-open.dev.jsonl"
    rows = [
        '{"question": "when was the last time anyone was on the moon",'
        ' "answer": ["14 December 1972 UTC", "December 1972"]}',
        '{"question": "who wrote it", "answer": []}',
        '{"question": "who sang it", "answer": ["Bobby Scott"]}',
    ]
    path.write_text("\n".join(rows))
    benchmark = natural_questions(path)
    prompt = "Answer the following question: "
    assert asked(benchmark) == [
        (
            "1",
            prompt + "when was the last time anyone was on the moon?",
            ("14 December 1972 UTC", "December 1972"),
        ),
        ("3", prompt + "who sang it?", ("Bobby Scott",)),
    ]
    assert benchmark.skipped == {"no answer": 1}


def test_any_alias_of_trivia_qa_is_right(tmp_path: Path) -> None:
    path = tmp_path / "unfiltered-web-dev.json"
    answer = {"Value": "Sunset Boulevard", "Aliases": ["Sunset Blvd", "Sunset Boulevard"]}
    row = {"QuestionId": "tc_2", "Question": "Which musical?", "Answer": answer, "EntityPages": []}
    path.write_text(json.dumps({"Data": [row, row], "Version": 1.0}))
    benchmark = trivia_qa(path)
    prompt = "Answer the following question: Which musical?"
    assert asked(benchmark) == [("tc_2", prompt, ("Sunset Boulevard", "Sunset Blvd"))]
    assert benchmark.skipped == {"its id was there before": 1}


def test_none_may_ask_the_question_answering_tool(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text('{"id": 0, "question": "who", "answers": ["Ann"]}')
    for load in (web_questions, natural_questions, trivia_qa):
        assert load(path).without_tools == ("QA",)


@pytest.mark.parametrize(
    ("load", "name", "content", "message"),
    [
        (web_questions, "a.json", "{}", "a.json: expected a JSON array, got dict"),
        (web_questions, "a.json", "[3]", "a.json: question 1: expected a JSON object, got int"),
        (
            web_questions,
            "a.json",
            '[{"utterance": "who", "targetValue": "(list (name Ann))"}]',
            "question 1: targetValue is '(list (name Ann))', expected (list (description ...))",
        ),
        (natural_questions, "a.jsonl", '{"question": "who"}', "a.jsonl:1: no 'answer', only 'que"),
        (
            natural_questions,
            "a.jsonl",
            '{"question": "who", "answer": "Ann"}',
            "a.jsonl:1: answer is str, expected a list",
        ),
        (
            natural_questions,
            "a.jsonl",
            '{"question": ["who"], "answer": ["Ann"]}',
            "a.jsonl:1: question is list, expected a string",
        ),
        (
            trivia_qa,
            "a.jsonl",
            '{"id": 1, "question": "who", "answers": [3]}',
            "a.jsonl:1: answers holds int, expected strings",
        ),
        (
            trivia_qa,
            "a.json",
            '{"Data": [{"QuestionId": "1", "Question": "who"}]}',
            "a.json: question 1: no 'Answer'",
        ),
    ],
)
def test_a_broken_question_is_named(
    tmp_path: Path, load: Callable[[Path], Benchmark], name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        load(tmp_path / name)
    assert message in str(caught.value)


@pytest.mark.parametrize("load", [web_questions, natural_questions, trivia_qa])
def test_a_missing_file_can_be_had_somewhere(
    tmp_path: Path, load: Callable[[Path], Benchmark]
) -> None:
    with pytest.raises(InputError, match="no such file; it can be had from https://"):
        load(tmp_path / "test.json")


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("load", "name", "num_questions"),
    [
        (web_questions, "webquestions/webq_devtest.json", 189),
        (web_questions, "webquestions/webq_val.json", 755),
        (natural_questions, "nq_open/dpr_nq_dev.jsonl", 1000),
        (trivia_qa, "triviaqa/dpr_trivia_dev.jsonl", 500),
    ],
)
def test_every_real_question_is_asked(
    load: Callable[[Path], Benchmark], name: str, num_questions: int
) -> None:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"no real questions at {path}")
    benchmark = load(path)
    assert (len(benchmark.examples), benchmark.skipped) == (num_questions, {})
    for example in benchmark.examples:
        assert example.prompt.startswith("Answer the following question: ")
        assert example.prompt.endswith("?") and not example.prompt.endswith("??")
