import datetime as dt

from pipeline.method import Method
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument
from pipeline.schemas import IN_FLIGHT, conform
from tests.pipeline.letters import letter_codec, letter_method, text_of

CODEC = letter_codec()


def rows(text: str, method: Method, **changes: str | None) -> list[dict[str, object]]:
    document = SourceDocument(
        **{
            "doc_id": "d", "text": text, "url": None, "date_download": None,
            "language": None, "dropped": None,
        } | changes  # type: ignore[arg-type]
    )  # fmt: skip
    table = prepare([document], "u", method, CODEC)
    return [dict(row) for row in conform(table, IN_FLIGHT, stage="test").to_pylist()]


def test_canonical_tokens_are_of_the_stripped_text_after_a_space() -> None:
    (row,) = rows(" \n1 + 2 = 3.\n", letter_method())
    assert text_of(CODEC, row["input_ids"]) == " 1 + 2 = 3."  # type: ignore[arg-type]
    assert row["text"] == " \n1 + 2 = 3.\n"


def test_a_long_document_becomes_numbered_parts_that_lose_nothing() -> None:
    text = "".join(f"Line {n} has {n} + {n} = {2 * n}.\n" for n in range(12))
    parts = rows(text, letter_method(max_document_tokens=60))
    assert len(parts) > 3
    assert "".join(str(part["text"]) for part in parts) == text
    assert [part["doc_id"] for part in parts] == [f"d#{n}" for n in range(1, len(parts) + 1)]
    assert [part["part"] for part in parts] == list(range(1, len(parts) + 1))
    assert all(len(part["input_ids"]) <= 60 for part in parts)  # type: ignore[arg-type]


def test_reasons_for_dropping_are_told_apart() -> None:
    method = letter_method(max_document_bytes=50)
    assert rows(" \n ", method)[0]["dropped"] == "empty_text"
    assert rows("1 + 1 = 2 " * 10, method)[0]["dropped"] == "too_large"
    assert rows("", method, dropped="invalid_utf8")[0]["dropped"] == "invalid_utf8"
    assert rows("No number in sight.", method)[0]["dropped"] == "not_offered"
    assert rows("So 1 + 1 = 2.", method)[0]["dropped"] is None


def test_a_dropped_document_keeps_its_row() -> None:
    (row,) = rows("", letter_method(), dropped="no_text")
    assert (row["doc_id"], row["input_ids"], row["offers"]) == ("d", [], [])


def test_the_date_is_the_urls_and_never_after_the_crawl() -> None:
    method = letter_method(tools=["Calendar"])
    url = "https://news.example/2021/03/09/story"
    (row,) = rows("It is Tuesday.", method, url=url)
    assert row["date"] == dt.date(2021, 3, 9)
    assert row["offers"] == [{"tool": "Calendar", "reason": "url_date"}]
    (row,) = rows("It is Tuesday.", method, url=url, date_download="2020-01-01T00:00:00Z")
    assert row["date"] is None and row["dropped"] == "not_offered"
