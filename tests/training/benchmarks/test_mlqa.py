import json
from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.mlqa import LANGUAGES, mlqa, mlqa_in_english

DUMMY = Path(__file__).resolve().parents[4] / "shared" / "data" / "mlqa_sample" / "hf_dummy"
NO_DUMMY = pytest.mark.skipif(not DUMMY.is_dir(), reason=f"no real questions at {DUMMY}")

CONTEXT = "Bonn was the capital until 1990. It lies on the Rhine."
# Bonn's first question exists in all languages, its second in German only.
FIRST = {
    "en": "Where does Bonn lie?",
    "es": "Donde esta Bonn?",
    "de": "Wo liegt Bonn?",
    "hi": "bon kahan hai",
    "vi": "Bonn nam o dau? ",
    "zh": "Bo En zai nali",
    "ar": "ayn taqae bun",
}


def entry(own_id: str, question: str, *answers: str) -> dict[str, object]:
    return {
        "id": own_id,
        "question": question,
        "answers": [{"text": text, "answer_start": CONTEXT.index(text)} for text in answers],
    }


def write(path: Path, language: str, qas: list[dict[str, object]]) -> None:
    paragraphs = [{"context": CONTEXT, "qas": qas}]
    content = {"version": 1.0, "data": [{"title": "Bonn", "paragraphs": paragraphs}]}
    file = path / f"test-context-en-question-{language}.json"
    file.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def split(tmp_path: Path) -> Path:
    for language, question in FIRST.items():
        write(tmp_path, language, [entry("q1", question, "the Rhine", "Rhine", "the Rhine")])
    second_de = entry("q2", "Bis wann war Bonn Hauptstadt?", "1990")
    write(tmp_path, "de", [entry("q1", FIRST["de"], "the Rhine"), second_de])
    second_en = entry("q2", "Until when was Bonn the capital?", "1990")
    write(tmp_path, "en", [entry("q1", FIRST["en"], "the Rhine"), second_en])
    return tmp_path


def test_a_paragraph_is_english_and_the_question_is_not(split: Path) -> None:
    benchmark = mlqa(split)
    by_id = {example.id: example for example in benchmark.examples}
    assert list(by_id) == ["es/q1", "de/q1", "de/q2", "hi/q1", "vi/q1", "zh/q1", "ar/q1"]
    assert by_id["vi/q1"].prompt == (
        "Your task is to answer a question based on the following paragraph: "
        "Bonn was the capital until 1990. It lies on the Rhine. "
        "Now answer the following question in English: Bonn nam o dau?"
    )
    assert by_id["vi/q1"].answers == ("the Rhine", "Rhine")
    assert [example.group for example in benchmark.examples].count("de") == 2
    assert (benchmark.criterion, benchmark.without_tools) == ("answer_within_10", ())
    assert benchmark.skipped == {}


def test_in_english_a_language_has_the_questions_it_has_itself(split: Path) -> None:
    benchmark = mlqa_in_english(split)
    assert [example.id for example in benchmark.examples] == [
        example.id for example in mlqa(split).examples
    ]
    ends = {example.id: example.prompt.rpartition(": ")[2] for example in benchmark.examples}
    assert ends["de/q2"] == "Until when was Bonn the capital?"
    assert {end for own_id, end in ends.items() if own_id != "de/q2"} == {FIRST["en"]}


def test_a_question_without_its_english_one_is_counted(split: Path) -> None:
    write(split, "en", [entry("q1", FIRST["en"], "the Rhine")])
    benchmark = mlqa_in_english(split)
    assert "de/q2" not in {example.id for example in benchmark.examples}
    assert benchmark.skipped == {"not in English": 1}


def test_every_language_must_be_there(split: Path) -> None:
    file = split / "test-context-en-question-ar.json"
    file.unlink()
    with pytest.raises(InputError) as caught:
        mlqa(split)
    assert str(caught.value).startswith(f"{file}: no such file; it can be had from https://")


@pytest.mark.parametrize(
    ("text", "what"), [(1990, "text is int, expected a string"), (" ", "no answer")]
)
def test_a_broken_question_is_named(split: Path, text: object, what: str) -> None:
    write(split, "zh", [{"id": "q9", "question": "?", "answers": [{"text": text}]}])
    with pytest.raises(InputError) as caught:
        mlqa(split)
    file = split / "test-context-en-question-zh.json"
    assert str(caught.value) == f"{file}: question q9: {what}"


@pytest.mark.shared_data
@NO_DUMMY
def test_real_questions_have_their_answers_in_the_paragraph() -> None:
    benchmark = mlqa(DUMMY)
    assert tuple(example.group for example in benchmark.examples) == LANGUAGES
    answers = {example.group: example.answers for example in benchmark.examples}
    assert (answers["de"], answers["zh"]) == (("525",), ("The Penn",))
    for example in benchmark.examples:
        assert example.answers[0] in example.prompt


@pytest.mark.shared_data
@NO_DUMMY
def test_real_questions_keep_their_id_in_english() -> None:
    """The sample has one question a language, and only two of them are its English one."""
    benchmark = mlqa_in_english(DUMMY)
    assert [example.group for example in benchmark.examples] == ["es", "ar"]
    for example in benchmark.examples:
        assert example.prompt.endswith("Does an infection for Sandflies go away over time?")
    assert benchmark.skipped == {"not in English": 4}
