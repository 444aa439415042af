import datetime as dt
from itertools import pairwise

import pytest

from tools.calls import ApiCall
from training.world.answers import Question, questions
from training.world.corpus import known_corpus
from training.world.document import Document


def asked(tool: str, *answers: str) -> Question:
    calls = frozenset({ApiCall(tool, "what helps here")})
    return Question(
        prompt="It is", today=dt.date(2009, 8, 3), calls=calls, answers=answers or ("no other",)
    )


@pytest.fixture(scope="module")
def documents() -> tuple[Document, ...]:
    return known_corpus(seed=5, num_documents=400).documents


def test_a_question_ends_where_a_call_helps_and_the_document_goes_on_with_an_answer(
    documents: tuple[Document, ...],
) -> None:
    drawn = questions(documents)
    assert len(drawn) == sum(len(document.marks) for document in documents) > 300
    texts = iter([document.text for document in documents for _ in document.marks])
    for question, text in zip(drawn, texts, strict=True):
        assert text.startswith(f"{question.prompt} ")
        assert question.is_answered(text[len(question.prompt) :]), question


def test_the_right_words_of_one_question_answer_few_others(
    documents: tuple[Document, ...],
) -> None:
    drawn = questions(documents)
    others = pairwise(drawn)
    answered = [question.is_answered(other.answers[0]) for question, other in others]
    assert sum(answered) < len(answered) / 20


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (" 42.", True),
        (" a total of 42 books", True),
        (" 42.50 in all", False),
        (" 420.", False),
        (" -42", False),
        (" 7, not 42", False),
        (" many", False),
    ],
)
def test_a_sum_is_right_when_the_first_number_is(text: str, right: bool) -> None:
    assert asked("Calculator", "42").is_answered(text) is right


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (" Monday, and we are back.", True),
        (" Monday, August 3, 2009.", True),
        (" August 3.", True),
        (" Monday, August 4, 2009.", False),
        (" Monday, August 3, 2010.", False),
        (" August 30.", False),
        (" today is Monday, August 3.", True),
        (" Tuesday, not Monday", False),
        (" the day that comes before Monday", False),
    ],
)
def test_a_date_is_right_when_all_that_is_said_of_it_is(text: str, right: bool) -> None:
    forms = ("Monday, August 3, 2009", "Monday, August 3", "August 3, 2009", "August 3", "Monday")
    assert asked("Calendar", *forms).is_answered(text) is right


def test_a_year_is_right_and_a_date_in_its_place_is_not() -> None:
    assert asked("Calendar", "2009").is_answered(" 2009.")
    assert not asked("Calendar", "2009").is_answered(" Monday, August 3, 2009.")


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (" Ala Jorvane.", True),
        (" Ala Jorvanes", False),
        (" Ala", False),
        (" the great Ala Jorvane", True),
        (" what the great pupil of Ala Jorvane said", False),
    ],
)
def test_a_name_is_right_when_it_is_whole_and_within_five_words(text: str, right: bool) -> None:
    assert asked("QA", "Ala Jorvane").is_answered(text) is right
