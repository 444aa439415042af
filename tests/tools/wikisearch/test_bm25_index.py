"""BM25 scores against a calculation by hand, order of hits, and odd queries."""

import numpy as np
import pytest

from tools.base import InputError
from tools.wikisearch.bm25 import BM25Index, best, build_index
from tools.wikisearch.generated import generated_passages, generated_queries
from tools.wikisearch.index import MAX_QUERY_TERMS
from tools.wikisearch.passages import Passage
from tools.wikisearch.terms import Analyzer


def passage(title: str, text: str, *section: str) -> Passage:
    return Passage(title=title, section=section, text=text)


@pytest.fixture
def fruit() -> BM25Index:
    return build_index(
        [
            passage("Apple", "apple pear"),  # appl 2, pear 1: 3 terms
            passage("Pear", "the plums of a plum", "Plum", "Pears"),  # pear 2, plum 3: 5 terms
            passage("Quince", "quince quince quince"),  # 4 terms; the mean is 4
        ]
    )


def test_scores_are_lucenes_bm25(fruit: BM25Index) -> None:
    # k1 = 0.9, b = 0.4: k1 (1 - b + b |d| / 4) is 0.81 for 3 terms and 0.99 for 5.
    idf_apple = 0.980829  # ln(1 + (3 - 1 + 0.5) / (1 + 0.5))
    idf_pear = 0.470004  # ln(1 + (3 - 2 + 0.5) / (2 + 0.5))
    (hit,) = fruit.search("apples", 3)
    assert (hit.passage_id, hit.passage.title) == (0, "Apple")
    assert hit.score == pytest.approx(idf_apple * 2 / (2 + 0.81), abs=1e-5)  # 0.698099
    first, second = fruit.search("pear apple", 3)
    assert (first.passage_id, second.passage_id) == (0, 1)
    assert first.score == pytest.approx(0.698099 + idf_pear / (1 + 0.81), abs=1e-5)
    assert second.score == pytest.approx(idf_pear * 2 / (2 + 0.99), abs=1e-5)


def test_a_term_asked_twice_counts_twice(fruit: BM25Index) -> None:
    once, twice = fruit.search("apple", 1)[0], fruit.search("Apple, apple!", 1)[0]
    assert twice.score == pytest.approx(2 * once.score, abs=1e-6)


def test_title_and_headings_are_searched(fruit: BM25Index) -> None:
    index = build_index([passage("Tide", "some words", "Moon", "Orbit"), passage("Sun", "words")])
    assert [hit.passage_id for hit in index.search("orbit of the moon", 2)] == [0]
    assert [hit.passage_id for hit in index.search("tides", 2)] == [0]


def test_the_first_hits_do_not_depend_on_how_many_are_asked_for() -> None:
    index = build_index(generated_passages(300, seed=1))
    for query in generated_queries(30, seed=2):
        many = index.search(query, 20)
        assert [index.search(query, k) for k in (1, 5, 19)] == [many[:k] for k in (1, 5, 19)]


def test_hits_carry_the_whole_passage() -> None:
    wanted = passage("Tide", "It follows the moon.", "Moon", "Orbit")
    index = build_index([passage("Sun", "other words"), wanted])
    assert index.search("tide", 1)[0].passage == wanted


def test_equal_scores_stand_in_the_order_of_passages() -> None:
    index = build_index([passage("Other", "text")] + [passage("Same", "same text")] * 40)
    assert [hit.passage_id for hit in index.search("same", 5)] == [1, 2, 3, 4, 5]


def test_best_takes_only_scores_above_zero_and_breaks_ties_by_place() -> None:
    scores_N = np.array([0.0, 1.0, 3.0, 1.0, 2.0, 1.0], dtype=np.float32)
    assert best(scores_N, 4) == [2, 4, 1, 3]
    assert best(scores_N, 99) == [2, 4, 1, 3, 5]
    assert best(np.zeros(3, dtype=np.float32), 2) == []


@pytest.mark.parametrize(
    "query",
    ["", " ", "\0", "the of and", '""', "?!(", "\u6f22\u5b57 \u5b66\u6821", "x" * 5000, "\ud800"],
)
def test_a_query_without_a_known_term_finds_nothing(fruit: BM25Index, query: str) -> None:
    assert fruit.search(query, 3) == []


@pytest.mark.parametrize(
    "query", ['"apple"', "\u201capple\u201d", "'Apple'", "apple's", "APPLE AND NOT (", "\0apple\0"]
)
def test_quotes_and_operators_around_a_term_do_not_matter(fruit: BM25Index, query: str) -> None:
    assert [hit.passage_id for hit in fruit.search(query, 3)] == [0]


def test_terms_after_the_64th_are_ignored(fruit: BM25Index) -> None:
    filler = "unknown " * (MAX_QUERY_TERMS - 1)
    assert [hit.passage_id for hit in fruit.search(filler + "apple", 1)] == [0]
    assert fruit.search(filler + "unknown apple", 1) == []


def test_a_batch_finds_what_each_query_finds(fruit: BM25Index) -> None:
    queries = ["apple", "", "pear apple", "quince"]
    assert fruit.search_batch(queries, 2) == [fruit.search(query, 2) for query in queries]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (
            "The fishing reels of John\u2019s and Mary's boats",
            ["fish", "reel", "john", "mari", "boat"],
        ),
        ("2.5 in 1,000, or 3. or x.5", ["2.5", "1,000", "3", "x", "5"]),
        (
            "U.S. and U.S.A. don't a_b o\u2019neill's",
            ["u.", "u.s.a", "don't", "a_b", "o\u2019neil"],
        ),
        ("us as is 's", ["us", "s"]),  # words of two letters have no ending
        ("K\u0131\u0304lauea Cafe\u0301", ["k\u0131\u0304lauea", "cafe\u0301"]),
    ],
)
def test_terms_are_those_of_lucenes_english_analyzer(text: str, terms: list[str]) -> None:
    assert list(Analyzer().terms(text)) == terms


def test_the_content_hash_depends_on_passages_and_their_order() -> None:
    a, b = passage("A", "one"), passage("B", "two")
    hashes = {build_index(rows).content_hash for rows in ([a], [b], [a, b], [b, a])}
    assert len(hashes) == 4
    assert build_index([a, b]).content_hash == build_index(iter([a, b])).content_hash


def test_passages_without_a_term_make_no_index() -> None:
    with pytest.raises(InputError, match="no passage with a term"):
        build_index([passage("The", "of and")])
    with pytest.raises(InputError, match="no passage with a term"):
        build_index([])
