"""Real Wikipedia text: whole articles in KILT's form and DPR passages."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.wikisearch.bm25 import BM25Index, build_index
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.kilt import parse_heading
from tools.wikisearch.passages import MAX_WORDS, MIN_WORDS

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "wiki_passages"
ARTICLES = [DATA / "timeqa_articles.kilt.jsonl", DATA / "wikitext2_valid.kilt.jsonl"]
DPR = DATA / "dpr_psgs_w100_sample.jsonl"

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="no shared/data/wiki_passages beside the checkout"
    ),
]


@pytest.fixture(scope="module")
def articles() -> BM25Index:
    return build_index(read_passages(ARTICLES, ReadCounts()))


@pytest.mark.parametrize(
    ("path", "num_lines"), [(ARTICLES[0], 120), (ARTICLES[1], 60)], ids=["timeqa", "wikitext2"]
)
def test_every_article_gives_passages_of_5_to_60_words(path: Path, num_lines: int) -> None:
    counts = ReadCounts()
    passages = list(read_passages([path], counts))
    assert (counts.num_lines, counts.num_pages) == (num_lines, num_lines)
    assert not counts.skipped
    assert {passage.title for passage in passages} == set(titles(path))
    assert all(MIN_WORDS <= len(passage.text.split()) <= MAX_WORDS for passage in passages)
    assert not any("::::" in passage.result() for passage in passages)
    headings = {heading.casefold() for passage in passages for heading in passage.section}
    assert headings.isdisjoint({"references", "external links", "see also", "further reading"})
    assert len(headings) > num_lines


def test_cutting_loses_few_words_of_the_articles() -> None:
    num_words = sum(len(line.split()) for path in ARTICLES for line in paragraphs(path))
    num_kept = sum(len(p.text.split()) for p in read_passages(ARTICLES, ReadCounts()))
    assert 0.95 < num_kept / num_words < 1.0


def titles(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [" ".join(json.loads(line)["wikipedia_title"].split()) for line in lines]


def paragraphs(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield from json.loads(line)["text"]


def test_dpr_passages_are_read_whole() -> None:
    counts = ReadCounts()
    passages = list(read_passages([DPR], counts))
    assert counts.num_lines == 3000
    assert counts.skipped == {"no_text": 2}  # the text stands in the title of these two
    assert len(passages) == 2998
    assert passages[0].title == "The Ashes"


def test_known_queries_find_known_articles(articles: BM25Index) -> None:
    for query, title in [
        ("European lobster", "Homarus gammarus"),
        ("Jacqueline Kennedy house in Washington", "Newton D. Baker House"),
        ("first Formula One podium in Malaysia with Sauber", "Sergio P\u00e9rez"),
    ]:
        assert articles.search(query, 1)[0].passage.title == title


def test_titles_find_their_own_articles(articles: BM25Index) -> None:
    wanted = [title for path in ARTICLES for title in titles(path)]
    found = [title for title in wanted if articles.search(title, 1)[0].passage.title == title]
    assert len(found) >= 0.95 * len(wanted)  # some are named in more passages of another article


def test_section_names_of_kilt_tasks_are_parsed() -> None:
    paths = set()
    for path in sorted((DATA / "kilt_task_samples").iterdir()):
        for line in path.read_text(encoding="utf-8").splitlines():
            paths |= {
                parse_heading(provenance["section"])
                for output in json.loads(line).get("output", [])
                for provenance in output.get("provenance", [])
            }
    assert {(), ("History",), ("Natural resources", "Flora")} <= paths
    assert not any("::::" in name or name.endswith(".") for path in paths for name in path)
