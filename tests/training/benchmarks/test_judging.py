from decimal import Decimal

import pytest

from training.benchmarks.example import Criterion, Example
from training.benchmarks.judging import contains, is_right, number_of, predicted_number


def right(completion: str, criterion: Criterion, *answers: str) -> bool:
    example = Example(id="1", prompt="", answers=answers, group="")
    return is_right(completion, example, criterion)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("Paris.", "Paris"),
        (" the city of Paris, France", "Paris"),
        ("one two three four Paris", "Paris"),
        ("PARIS", "Paris"),
        ('"Paris"', "Paris"),
        ("Paris's centre", "Paris"),
        ("French-born parents", "French"),
        ("\n\nthe 14th", "14th"),
        ("1,200 days", "1200"),
        ("for Real Madrid CF.", "Real Madrid CF"),
        ("the Beatles", "The Beatles"),
        ("August 14, 2020", "August 14, 2020"),
        ("August 14,2020", "2020"),
        ("S\u00e3o Paulo", "Sa\u0303o Paulo"),
    ],
)
def test_the_word_is_within_five(completion: str, answer: str) -> None:
    assert right(completion, "word_within_5", answer)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("one two three four five Paris", "Paris"),
        ("born on 14 August, of 2020", "2020"),
        ("", "Paris"),
        ("Parisian", "Paris"),
        ("1975", "7"),
        ("9.5 days", "9"),
        ("1,200 days", "200"),
        ("Real Sociedad, Madrid CF", "Real Madrid CF"),
        ("the of a", "..."),
        ("one two three Real Madrid CF", "Real Madrid CF"),
    ],
)
def test_the_word_is_not_within_five(completion: str, answer: str) -> None:
    assert not right(completion, "word_within_5", answer)


@pytest.mark.parametrize(
    ("criterion", "num_words"),
    [("word_within_5", 5), ("answer_within_10", 10), ("answer_within_20", 20)],
)
def test_an_answer_must_end_within_the_words_that_count(
    criterion: Criterion, num_words: int
) -> None:
    assert right("word " * (num_words - 2) + "New York City", criterion, "new york")
    assert not right("word " * (num_words - 1) + "New York City", criterion, "new york")


def test_articles_of_the_prediction_count_as_words() -> None:
    assert not right("the a the a the Paris", "word_within_5", "Paris")


def test_any_of_the_answers_is_right() -> None:
    assert right("It is in NYC", "answer_within_20", "New York", "NYC")
    assert right("about 7", "number", "5", "7")
    assert not right("about 6", "number", "5", "7")


def test_an_answer_of_an_article_is_an_answer() -> None:
    assert contains("It is the A.", "a")
    assert not contains("It is the B.", "a")


@pytest.mark.parametrize(
    ("completion", "number"),
    [
        ("8", "8"),
        (" 8.", "8"),
        ("The correct answer is 5+3=8", "8"),
        ("5 + 3 = 8, so 9", "8"),
        ("5 apples and 3 pears", "5"),
        ("x = y = 7", "7"),
        ("7 = x", "7"),
        ("$1,234.50", "1234.50"),
        ("12,345,678 people", "12345678"),
        ("3,4", "3"),
        ("25%", "25"),
        (".5 litres", "0.5"),
        ("0.50", "0.5"),
        ("-3", "-3"),
        ("\u22123", "-3"),
        ("-$3", "-3"),
        ("$-3", "-3"),
        ("2-5=-3", "-3"),
        (" 5 + 3 = 8 apples", "8"),
        (" $5 x 3 = $15", "15"),
        (" 5 apples + 3 red apples = 8 apples", "8"),
        (" (5 + 3) * 2 = 16", "16"),
        (" 10 / 4 = 2.5.", "2.5"),
        (" 1,200 - 200 = 1,000", "1000"),
        (" 5 apples and 3 pears, so 5+3=8.", "8"),
        (" x = 5 + 3 = 8", "8"),
        (" 5 + 3 = x = 8", "8"),
        (" 5 + 3 = ?\n\n7", "5"),
        (" 12 apples = 1 dozen", "12"),
        (" 12, as x = 7", "12"),
        (" 5.\n\nQuestion: 1 + 2 = 3", "5"),
        (" 5. Then 1 + 2 = 3", "5"),
        (" 5\n1 + 2 = 3", "5"),
        (" 5 + 3 is 8 = 2 times 4", "5"),
        ("7-3", "7"),
        ("(2)-3", "2"),
        ("COVID-19", "19"),
        ("B2B v1.5 in 3 steps", "3"),
        ("...8", "8"),
        ("the answer is.8 apples", "8"),
        ("8th", "8"),
        ("1/2", "1"),
    ],
)
def test_the_number_that_counts(completion: str, number: str) -> None:
    assert predicted_number(completion) == Decimal(number)
    assert right(completion, "number", number)


@pytest.mark.parametrize("completion", ["", "eight", "B2B", "$", "-", "x = y", "\u0663"])
def test_no_number_is_predicted(completion: str) -> None:
    assert predicted_number(completion) is None
    assert not right(completion, "number", "8")


@pytest.mark.parametrize(
    ("completion", "answer", "expected"),
    [
        ("8.0", "8", True),
        ("8.001", "8", False),
        ("0.67", "0.6666666667", True),
        ("0.66", "0.6666666667", False),
        ("0.667", "0.6666666667", True),
        ("9.43", "9.43", True),
        ("9.434", "9.43", False),
        ("1200", "1,200", True),
        ("8", "-8", False),
        ("8", "eight", False),
    ],
)
def test_numbers_are_compared_as_numbers(completion: str, answer: str, expected: bool) -> None:
    assert right(completion, "number", answer) is expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" -1,200.50 ", "-1200.5"),
        ("$3", "3"),
        ("25 %", "25"),
        ("11; 12; 13", None),
        ("3:5", None),
        ("1/2", None),
        ("Book store", None),
        ("", None),
    ],
)
def test_a_text_that_is_a_number_as_a_whole(text: str, number: str | None) -> None:
    assert number_of(text) == (None if number is None else Decimal(number))


def test_text_without_spaces_has_words_too() -> None:
    assert right("\u7b54\u6848\u662fParis\u3002", "answer_within_10", "Paris")
    assert right("\u5df4\u9ece\u662f1975\u5e74\u7684", "answer_within_10", "1975")
    assert right("\u5df4\u9ece\u5e02", "answer_within_10", "\u5df4\u9ece")
    assert not right("\u5df4\u9ece\u5e02", "answer_within_10", "\u9ece\u5df4")
    assert right("Paris\u092e\u0947\u0902", "answer_within_10", "Paris")
    assert right("\u0641\u064aParis", "answer_within_10", "Paris")
    assert not right("COVID19\u5e74", "answer_within_10", "19")


def test_each_character_of_such_text_counts_as_a_word() -> None:
    nine = "\u7b54\u6848\uff0c" * 4 + "\u662f"
    assert right(f"{nine}Paris", "answer_within_10", "Paris")
    assert not right(f"{nine}\u5728Paris", "answer_within_10", "Paris")
    assert right(f"{nine}\u5728Paris", "answer_within_20", "Paris")
