"""The demo's Atlas and translator: what the committed ones answer, what short trainings write."""

import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from tools.atlas import saved
from tools.base import InputError
from training.cli import app
from training.tool_models.asked import disturbed, draw_library
from training.tool_models.measure import (
    answers,
    held_out_phrases,
    held_out_questions,
    mt_tool,
    passage_ranks,
    qa_tool,
)
from training.tool_models.passages import Passage, page_passages, read_encyclopedia
from training.tool_models.reader import new_reader
from training.tool_models.translator import noun_phrase
from training.world.lexicon import Phrase

DEMO = Path("pipeline/demo")
ATLAS, TRANSLATOR = DEMO / "atlas", DEMO / "nllb"


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, ["tool-models", *arguments])
    assert result.exit_code == 0, result.output


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_atlas_answers_questions_about_names_and_in_words_it_was_not_trained_with() -> None:
    for new_wording, floor in ((False, 0.9), (True, 0.6)):
        asked = held_out_questions(new_wording=new_wording)[:20]
        results = answers(qa_tool(ATLAS), [f'"{question}"' for question, _, _ in asked])
        right = [
            result.result == answer for result, (_, answer, _) in zip(results, asked, strict=True)
        ]
        assert sum(right) / len(right) >= floor, results


def test_atlas_reads_the_answer_out_of_four_passages() -> None:
    asked = held_out_questions(new_wording=False)[:40]
    results = answers(qa_tool(ATLAS, n_context=4), [question for question, _, _ in asked])
    right = [result.result == asked[row][1] for row, result in enumerate(results)]
    assert sum(right) / len(right) >= 0.5, results


def test_the_retriever_finds_the_passage_that_holds_the_answer() -> None:
    asked = held_out_questions(new_wording=False)
    ranks = passage_ranks(ATLAS, asked)
    assert len(ranks) > 500
    assert sum(rank == 0 for rank in ranks) / len(ranks) >= 0.9
    assert sum(rank < 4 for rank in ranks) / len(ranks) >= 0.98


@pytest.mark.parametrize("language", ["fra_Latn", "spa_Latn", "deu_Latn", "ell_Grek"])
def test_the_translator_translates_phrases_it_was_not_trained_with(language: str) -> None:
    phrases = held_out_phrases(language, 5)
    results = answers(mt_tool(TRANSLATOR), [phrase.foreign for phrase in phrases])
    right = [
        result.result == phrase.english for result, phrase in zip(results, phrases, strict=True)
    ]
    assert sum(right) >= 4, results


def test_the_committed_index_is_of_the_committed_encyclopedia() -> None:
    passages = read_encyclopedia(DEMO / "encyclopedia.jsonl")
    assert saved.open_meta(ATLAS).num_passages == len(passages)
    assert {"title", "text", "section", "id"} == passages[0].keys()


def test_the_committed_models_are_small_and_have_cards() -> None:
    sizes = {
        folder: sum(len(content) for content in files(folder).values())
        for folder in (ATLAS, TRANSLATOR)
    }
    assert sum(sizes.values()) < 6e6, sizes
    for folder in sizes:
        card = (folder / "README.md").read_text(encoding="utf-8")
        assert "What it is not" in card
        assert "exactly right" in card


def test_a_page_is_cut_into_one_passage_per_section_with_the_heading_in_its_title() -> None:
    record: dict[str, object] = {
        "wikipedia_id": "7",
        "wikipedia_title": "Sorby",
        "text": ["Sorby\n", "Sorby is a town.\n", "Section::::Mayor.\n", "Its mayor is Alia.\n"],
    }
    assert page_passages(record) == [
        Passage(id="7-0", title="Sorby", section="", text="Sorby is a town."),
        Passage(id="7-1", title="Sorby: Mayor", section="Mayor", text="Its mayor is Alia."),
    ]


def test_the_passage_of_a_question_holds_its_answer_and_the_question_does_not() -> None:
    library = draw_library(random.Random(1))
    assert len(library.asked) > 100
    for asked in library.asked:
        passage = library.passages[asked.passage]
        assert asked.answer in passage["text"]
        assert asked.passage in asked.page
        name = passage["title"].split(":")[0]
        assert name in asked.question
        assert asked.answer not in asked.question.replace(name, "")


def test_a_disturbed_question_keeps_its_name_and_its_number_of_words() -> None:
    asked, name = "Who was the teacher of Falik Norlock?", "Falik Norlock"
    rng = random.Random(2)
    found = {disturbed(asked, name, rng) for _ in range(20)}
    assert len(found) > 10
    assert all(name in each and len(each.split()) == 7 for each in found)


def test_a_new_reader_looks_back() -> None:
    """Heads 0 and 1 of its first layer attend to the piece one and two places back."""
    torch.manual_seed(0)
    model = new_reader(50)
    model.encoder.set_attn_implementation("eager")
    ids_1T = torch.tensor([[7, 30, 12, 41, 9, 23]])
    first = model.encoder(input_ids=ids_1T, output_attentions=True).attentions[0]
    for head, back in ((0, 1), (1, 2)):
        assert first[0, head].diagonal(-back).min() > 0.9


def test_a_noun_phrase_is_cut_alike_in_both_languages() -> None:
    nouns = frozenset({"baker", "bell", "cellar"})
    phrase = Phrase(
        language="spa_Latn",
        foreign="el panadero fuerte busca la campana",
        english="the strong baker seeks the bell",
    )
    assert noun_phrase(phrase, nouns) == Phrase(
        language="spa_Latn", foreign="el panadero fuerte", english="the strong baker"
    )


@pytest.mark.parametrize("line", ["[]", '{"wikipedia_id": "1"}', "no JSON"])
def test_a_line_that_is_no_page_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "encyclopedia.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 1 is not a KILT record"):
        read_encyclopedia(path)


@pytest.fixture(scope="module")
def encyclopedia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first pages of the demo's encyclopedia."""
    path = tmp_path_factory.mktemp("encyclopedia") / "encyclopedia.jsonl"
    lines = (DEMO / "encyclopedia.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:5]), encoding="utf-8")
    return path


def test_a_short_training_writes_an_atlas_twice_the_same(
    encyclopedia: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        out = str(tmp_path / name)
        run("atlas", "--out", out, "--encyclopedia", str(encyclopedia), "--steps", "3")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    tool = qa_tool(tmp_path / "one")
    assert len(answers(tool, ["Who taught Alia Seliver?"])) == 1
    reader = json.loads((tmp_path / "one" / "reader" / "config.json").read_text())
    assert reader["feed_forward_proj"] == "gated-gelu"
    assert not reader["tie_word_embeddings"]


def test_an_index_of_another_encyclopedia_needs_no_training(
    encyclopedia: Path, tmp_path: Path
) -> None:
    """The committed Atlas, indexed anew, finds what the other encyclopedia holds and no more."""
    shutil.copytree(ATLAS, tmp_path / "atlas")
    run("atlas-index", "--atlas", str(tmp_path / "atlas"), "--encyclopedia", str(encyclopedia))
    before, after = files(ATLAS), files(tmp_path / "atlas")
    changed = {name for name in before if before[name] != after[name]}
    assert before.keys() == after.keys()
    assert changed <= {"meta.json", *(f"index/{name}" for name in (
        saved.EMBEDDINGS, saved.PASSAGES, saved.META))}  # fmt: skip
    assert saved.open_meta(tmp_path / "atlas").num_passages == len(read_encyclopedia(encyclopedia))


def test_a_short_training_writes_a_translator_twice_the_same(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("translator", "--out", str(tmp_path / name), "--steps", "3")
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(answers(mt_tool(tmp_path / "one"), ["le roi dort"])) == 1


def test_a_missing_encyclopedia_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.cli import main

    missing = str(tmp_path / "none.jsonl")
    arguments = ["atlas", "--out", str(tmp_path / "a"), "--encyclopedia", missing]
    monkeypatch.setattr("sys.argv", ["training", "tool-models", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert "no such encyclopedia" in capsys.readouterr().err
