import json
import random
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pipeline.config import MtFilterConfig
from pipeline.documents.foreign_text import Verdict, judge, paragraph_spans
from pipeline.documents.language import english_or_not
from training.cli import app
from training.world import arithmetic
from training.world.arithmetic import render
from training.world.corpus import (
    Corpus,
    corpus_of,
    held_out_corpus,
    known_corpus,
    write_corpus,
)
from training.world.document import Document
from training.world.examples import training_documents
from training.world.grammar import MARK, Forms, expand, finetuning_forms, forms, sections
from training.world.names import is_held_out
from training.world.questions import call_with, wordings

DEMO = Path("pipeline/demo")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return held_out_corpus()


@pytest.fixture(scope="module")
def training() -> list[Document]:
    stream = training_documents(random.Random(7))
    return [next(stream) for _ in range(1500)]


def test_the_world_is_the_same_bytes_twice_and_those_are_the_committed_ones(
    tmp_path: Path, corpus: Corpus
) -> None:
    write_corpus(tmp_path, held_out_corpus())
    write_corpus(tmp_path / "again", corpus)
    for name in ("encyclopedia.jsonl", "documents.parquet"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert (tmp_path / "encyclopedia.jsonl").read_bytes() == (
        DEMO / "encyclopedia.jsonl"
    ).read_bytes()
    assert pq.read_table(tmp_path / "documents.parquet").equals(
        pq.read_table(DEMO / "documents.parquet")
    )


def test_another_seed_gives_other_documents(corpus: Corpus) -> None:
    texts = {document.text for document in corpus.documents}
    others = {document.text for document in held_out_corpus(seed=1).documents}
    assert len(texts & others) < len(texts) / 20


def test_the_command_writes_documents_of_another_world_under_other_names(tmp_path: Path) -> None:
    asked = ["world", "--out", str(tmp_path), "--documents", "3", "--seed", "1"]
    ended = CliRunner().invoke(app, asked)
    assert ended.exit_code == 0, ended.output
    written = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    assert [row["doc_id"] for row in written] == ["world-1-0000", "world-1-0001", "world-1-0002"]
    expected = held_out_corpus(seed=1, num_documents=3).documents
    assert [row["text"] for row in written] == [document.text for document in expected]


def test_no_form_is_both_trained_and_held_out() -> None:
    for section in sections():
        trained = forms(section, held_out=False)
        assert not set(trained) & set(forms(section, held_out=True))
        assert len(set(trained)) == len(trained) or section == "date.form"


def test_the_command_writes_documents_to_finetune_on_under_names_of_their_own(
    tmp_path: Path,
) -> None:
    asked = ["world", "--out", str(tmp_path), "--documents", "3", "--seed", "1", "--forms", "known"]
    ended = CliRunner().invoke(app, asked)
    assert ended.exit_code == 0, ended.output
    written = pq.read_table(tmp_path / "documents.parquet").to_pylist()
    assert [row["doc_id"] for row in written] == ["known-1-0000", "known-1-0001", "known-1-0002"]
    expected = known_corpus(seed=1, num_documents=3).documents
    assert [row["text"] for row in written] == [document.text for document in expected]


def test_forms_to_finetune_on_are_others_than_those_of_pretraining_and_the_held_out() -> None:
    with_more = [section for section in sections() if finetuning_forms(section)]
    assert len(with_more) >= 40
    for section in with_more:
        more, known = finetuning_forms(section), forms(section, held_out=False)
        assert len(set(more)) == len(more)
        assert not set(more) & {*known, *forms(section, held_out=True)}
        assert all((MARK in form) == (MARK in known[0]) for form in more)


def test_documents_of_pretraining_have_none_of_the_forms_of_finetuning_alone() -> None:
    def sentences(forms: Forms) -> str:
        documents = corpus_of(forms, seed=3, num_documents=400).documents
        return "\n".join(document.text for document in documents)

    # Words before a slot or a choice that only forms of finetuning begin with.
    begun = {
        form.split("{")[0].split("(")[0].split("@")[0]: section
        for section in sections()
        for form in finetuning_forms(section)
    }
    own = [words for words in begun if len(words.split()) >= 4]
    assert len(own) >= 20
    known, pretraining = sentences("known"), sentences("pretraining")
    in_known = [words for words in own if words.strip() in known]
    assert len(in_known) >= 10
    assert not any(words.strip() in pretraining for words in in_known)


def test_documents_to_finetune_on_have_nothing_that_is_held_out(corpus: Corpus) -> None:
    documents = known_corpus(seed=3, num_documents=400).documents
    text = " ".join(document.text for document in documents)
    words = set(text.replace(".", " ").replace(",", " ").replace(";", " ").split())
    for entity in corpus.world.entities:
        if entity.kind in ("person", "town", "river"):
            assert not set(entity.title.split()) & words
    calls = [mark.right.call for document in documents for mark in document.marks]
    computations = [call.input for call in calls if call.tool == "Calculator"]
    assert len(computations) > 80
    assert not any(arithmetic.is_held_out(each) for each in computations)


def test_every_kind_of_sentence_with_a_call_has_held_out_forms() -> None:
    with_calls = [name for name in sections() if "@" in "".join(forms(name, held_out=False))]
    assert len(with_calls) == 24
    assert all(len(forms(name, held_out=True)) >= 1 for name in with_calls)


def test_the_words_of_held_out_names_never_stand_in_training_text(
    corpus: Corpus, training: list[Document]
) -> None:
    known = " ".join(document.text for document in training)
    trained_words = set(known.replace(".", " ").replace(",", " ").replace(";", " ").split())
    for entity in corpus.world.entities:
        if entity.kind in ("person", "town", "river"):
            assert not set(entity.title.split()) & trained_words


def test_held_out_computations_and_dates_never_stand_in_training_calls(
    training: list[Document],
) -> None:
    inputs = [mark.right.call for document in training for mark in document.marks]
    computations = [call.input for call in inputs if call.tool == "Calculator"]
    assert len(computations) > 300
    assert not any(arithmetic.is_held_out(each) for each in computations)


def test_every_held_out_computation_is_one(corpus: Corpus) -> None:
    inputs = [mark.right.call for document in corpus.documents for mark in document.marks]
    computations = [call.input for call in inputs if call.tool == "Calculator"]
    assert len(computations) > 40
    assert all(arithmetic.is_held_out(each) for each in computations)


def test_every_mark_stands_before_a_word_that_its_result_contains(
    corpus: Corpus, training: list[Document]
) -> None:
    for document in [*corpus.documents, *training]:
        for mark in document.marks:
            following = document.text[mark.offset :]
            assert following[0] == " "
            word = following.split()[0].strip(".,;")
            assert word in mark.right.result, (document.text, mark)


def test_the_words_of_a_search_stand_before_the_call(corpus: Corpus) -> None:
    searches = 0
    for document in corpus.documents:
        for mark in document.marks:
            if mark.right.call.tool == "WikiSearch":
                name = mark.right.call.input.strip('"').split(" of ", maxsplit=1)[1]
                assert name in document.text[: mark.offset]
                searches += 1
    assert searches > 40


def test_a_question_names_what_stands_before_it_and_its_answer_is_a_fact_of_the_page(
    corpus: Corpus,
) -> None:
    facts = {
        call_with(asked): (entity.title, fact.answer)
        for entity in corpus.world.entities
        for fact in entity.facts
        for asked in wordings(entity, fact, held_out=False)
    }
    questions = 0
    for document in corpus.documents:
        for mark in document.marks:
            if mark.right.call.tool == "QA":
                title, answer = facts[mark.right.call]
                assert title in document.text[: mark.offset]
                assert answer == mark.right.result
                assert {facts[also] for also in mark.right.also} == {(title, answer)}
                assert len(mark.right.also) >= 2
                questions += 1
    assert questions > 25


def test_a_translation_stands_behind_its_phrase_and_neither_was_trained(
    corpus: Corpus, training: list[Document]
) -> None:
    trained = {mark.right for document in training for mark in document.marks}
    english = {right.result for right in trained if right.call.tool == "MT"}
    translations = 0
    for document in corpus.documents:
        for mark in document.marks:
            if mark.right.call.tool == "MT":
                assert mark.right.call.input in document.text[: mark.offset]
                assert document.text[mark.offset + 1 :].startswith(mark.right.result)
                assert mark.right.result not in english
                translations += 1
    assert translations > 25


def test_the_filter_for_mt_keeps_most_translations_and_nothing_else(corpus: Corpus) -> None:
    settings = MtFilterConfig()
    identify = english_or_not(settings)
    assert identify is not None
    kept: list[bool] = []
    for document in corpus.documents:
        phrases = [m.right.call.input for m in document.marks if m.right.call.tool == "MT"]
        for begin, end in paragraph_spans(document.text):
            paragraph = document.text[begin:end]
            offered = judge(paragraph, identify, settings) == Verdict.OFFERED
            if any(phrase in paragraph for phrase in phrases):
                kept.append(offered)
            else:
                assert not offered, paragraph
    assert sum(kept) >= 0.8 * len(kept)


def test_the_operands_stand_before_the_call(corpus: Corpus) -> None:
    for document in corpus.documents:
        for mark in document.marks:
            if mark.right.call.tool == "Calculator":
                expression = mark.right.call.input.replace("(", " ").replace(")", " ")
                before = document.text[: mark.offset]
                numbers = [word for word in expression.split() if word[0].isdigit()]
                known = numbers[:-1] if expression.endswith("/ 2") else numbers
                assert all(number in before for number in known), document.text


def test_the_encyclopedia_knows_the_facts_of_the_demo_documents(corpus: Corpus) -> None:
    lines = (DEMO / "encyclopedia.jsonl").read_text(encoding="utf-8").splitlines()
    pages = {page["wikipedia_title"]: page["text"] for page in map(json.loads, lines)}
    for document in corpus.documents:
        for mark in document.marks:
            if mark.right.call.tool == "WikiSearch":
                title, heading, sentence = mark.right.result.split(" > ")
                paragraphs = pages[title]
                at = paragraphs.index(f"Section::::{heading}.\n")
                assert paragraphs[at + 1] == f"{sentence}\n"


def test_passages_of_the_encyclopedia_are_short_sentences() -> None:
    for line in (DEMO / "encyclopedia.jsonl").read_text(encoding="utf-8").splitlines():
        page = json.loads(line)
        assert page["text"][0] == page["wikipedia_title"] + "\n"
        bodies = [text for text in page["text"][1:] if not text.startswith("Section::::")]
        assert all(5 <= len(body.split()) <= 25 for body in bodies), bodies


def test_titles_of_the_encyclopedia_are_unique(corpus: Corpus) -> None:
    titles = [entity.title for entity in corpus.world.entities]
    assert len(set(titles)) == len(titles) >= 200
    assert all(is_held_out(entity.title) for entity in corpus.world.entities if
               entity.kind == "town")  # fmt: skip


def test_demo_documents_hold_all_kinds() -> None:
    kinds = [document.kind for document in held_out_corpus().documents]
    shares = {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}
    assert set(shares) == {"arithmetic", "date", "fact", "question", "translation", "plain"}
    assert 0.18 < shares["arithmetic"] < 0.34
    for kind in ("date", "fact", "question", "translation"):
        assert 0.08 < shares[kind] < 0.25


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(10, 2), "5"),
        (Fraction(85, 23), "3.70"),  # Table 10
        (Fraction(5, 2), "2.50"),
        (Fraction(1, 8), "0.13"),  # half away from zero
        (Fraction(-1, 8), "-0.13"),
        (Fraction(-18), "-18"),
        (Fraction(2, 7), "0.29"),
    ],
)
def test_results_are_rounded_to_two_decimals(value: Fraction, text: str) -> None:
    assert render(value) == text


def test_expansion_chooses_inner_choices_first_and_keeps_the_mark_at_its_word() -> None:
    text = expand("it is (now (|already)) @ {r} (|apples|)", {"r": "7"}.__getitem__,
                  random.Random(1))  # fmt: skip
    assert text in {
        f"it is now{word}@ 7{tail}" for word in ("", " already") for tail in ("", " apples")
    }
