import datetime as dt
import json
from pathlib import Path

import pytest

from pipeline.documents.offers import DocumentFacts, offered_tools
from tools.calendar_date import date_from_url
from tools.prompt import load_prompt

WEBTEXT = Path(__file__).parents[4] / "shared" / "data" / "webtext"
DAY = dt.date(2017, 3, 9)


def offers(text: str, *tools: str, doc_id: str = "d", date: dt.date | None = None) -> list[str]:
    """ "tool: reason" of every offer."""
    offered = offered_tools(DocumentFacts(text=text, doc_id=doc_id, date=date), tools)
    return [f"{tool}: {reason}" for tool, reason in offered]


@pytest.mark.parametrize(
    "text",
    [
        "x = 5",
        "x=5",
        "the sum equals 12",
        "It is EQUAL TO \u00a312.",
        "a total of $400",
        "an average of 2.87 goals",
        "on average of\n.5",
        "the balance = -3",
    ],
)
def test_a_cue_before_a_number_offers_the_calculator(text: str) -> None:
    assert offers(text, "Calculator") == ["Calculator: cue"]


@pytest.mark.parametrize(
    "text",
    [
        "equals",
        "equality 5",
        "unequals 5",
        "a total of about 400",
        "total 5",
        "average 3",
        "x => 5",
    ],
)
def test_a_cue_needs_its_whole_words_and_a_number_right_after(text: str) -> None:
    assert offers(text, "Calculator") == []


def test_a_relation_offers_the_calculator() -> None:
    text = "From 1994 until 2011, in total 17 years."
    assert offers(text, "Calculator") == ["Calculator: relation"]


def test_the_papers_own_example_texts_are_offered() -> None:
    lines = load_prompt("Calculator").splitlines()
    texts = [line.removeprefix("Input: ") for line in lines if line.startswith("Input: ")][:-1]
    reasons = [offers(text, "Calculator") for text in texts]
    cue, relation = ["Calculator: cue"], ["Calculator: relation"]
    assert reasons == [cue, cue, cue, relation, cue]


def test_of_texts_with_three_numbers_one_in_a_hundred_is_offered_for_ever_the_same() -> None:
    text = "In 1917 there were 350 of them, and 1200 more."
    numbers = range(1000)
    sampled = [n for n in numbers if offers(text, "Calculator", doc_id=f"document {n}")]
    assert sampled == [2, 118, 331, 381, 440, 483, 537, 596, 653, 659, 732, 779, 960, 987]
    doc_id = f"document {sampled[0]}"
    assert offers(text, "Calculator", doc_id=doc_id) == ["Calculator: sample"]
    assert offers("Only 2 numbers: 350.", "Calculator", doc_id=doc_id) == []


def test_the_calendar_is_offered_a_text_with_a_date() -> None:
    assert offers("x", "Calendar", date=DAY) == ["Calendar: url_date"]
    assert offers("x", "Calendar") == []


def test_mt_is_offered_a_text_with_foreign_text_in_it() -> None:
    facts = DocumentFacts(text="x", doc_id="d", date=None, has_foreign_text=True)
    assert offered_tools(facts, ["MT", "Calculator"]) == [("MT", "foreign_text")]
    assert offers("x", "MT") == []


def test_other_tools_are_offered_every_text_in_the_order_asked() -> None:
    assert offers("x = 5", "WikiSearch", "Mine", "Calculator", "Calendar") == [
        "WikiSearch: all",
        "Mine: all",
        "Calculator: cue",
    ]


@pytest.mark.shared_data
def test_shares_of_real_documents_are_what_was_measured() -> None:
    """Of 300 C4 documents 8.3 % have a date and 14.3 % are for the calculator."""
    path = WEBTEXT / "c4_wimbd_1000.jsonl"
    if not path.exists():
        pytest.skip(f"no real web text at {path}")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    counts = dict.fromkeys(("cue", "relation", "sample", "url_date"), 0)
    for row in rows:
        crawled = dt.date.fromisoformat(row["date_download"][:10])
        facts = DocumentFacts(
            text=row["raw_content"],
            doc_id=row["digest"],
            date=date_from_url(row["url"], not_after=crawled),
        )
        offered = offered_tools(facts, ("Calculator", "Calendar"))
        for _, reason in offered:
            counts[reason] += 1
    calculator = counts["cue"] + counts["relation"] + counts["sample"]
    assert 0.06 < counts["url_date"] / len(rows) < 0.11
    assert 0.09 < calculator / len(rows) < 0.20
    assert counts["sample"] / len(rows) < 0.03
