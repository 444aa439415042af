"""Lucene beside the index in memory: the same passages for the same queries."""

import math
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.wikisearch.lucene_process import LuceneProcess
from tools.base import ToolformerError, ToolRequest, ToolResult
from tools.wikisearch.bm25 import BM25Index, build_index
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.generated import generated_passages, generated_queries
from tools.wikisearch.index import Hit
from tools.wikisearch.lucene_build import index_passages
from tools.wikisearch.passages import Passage
from tools.wikisearch.shards import cut_passages
from tools.wikisearch.terms import Analyzer

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "wiki_passages"
FILES = ["wikitext2_valid.kilt.jsonl", "dpr_psgs_w100_sample.jsonl"]
FEW = [
    Passage(title="Tide", section=("Moon", "Orbit"), text="It follows the moon \U00010330."),
    Passage(title="Sun", section=(), text="It is bright \u2013 and hot, \u592a."),
    *[Passage(title="Same", section=(), text="the same text again")] * 40,
    Passage(title="Apple", section=(), text="apple apple pear"),
]


@pytest.fixture(scope="module")
def lucene() -> Iterator[LuceneProcess]:
    process = LuceneProcess()
    yield process
    assert process.close() == 0


def build(passages: Sequence[Passage], directory: Path) -> Path:
    shards = directory / "shards"
    cut = cut_passages(passages, ReadCounts(), shards, "test")
    index_passages(shards, cut, directory / "idx", heap_mb=256)
    return directory / "idx"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(FEW, tmp_path_factory.mktemp("few"))


def test_passages_come_back_whole(few: Path, lucene: LuceneProcess) -> None:
    found = lucene.search(few, ["tides", "\U00010330", "\u592a", "'bright'"], 1)
    assert [[hit.passage for hit in hits] for hits in found] == [
        [FEW[0]], [FEW[0]], [FEW[1]], [FEW[1]],
    ]  # fmt: skip
    assert [hits[0].passage_id for hits in found] == [0, 0, 1, 1]


def test_scores_are_those_of_the_index_in_memory(few: Path, lucene: LuceneProcess) -> None:
    memory = build_index(FEW)
    for query in ("moon", "apple pear", "same again", "orbit apple apple", "hot tide"):
        (found,), expected = lucene.search(few, [query], 50), memory.search(query, 50)
        assert [hit.passage_id for hit in found] == [hit.passage_id for hit in expected]
        for hit, other in zip(found, expected, strict=True):
            assert hit.score == pytest.approx(other.score, abs=1e-4)


def test_equal_scores_stand_in_the_order_of_passages(few: Path, lucene: LuceneProcess) -> None:
    (found,) = lucene.search(few, ["same"], 7)
    assert [hit.passage_id for hit in found] == [2, 3, 4, 5, 6, 7, 8]


def test_threads_do_not_disturb_each_other(few: Path, lucene: LuceneProcess) -> None:
    queries = ["moon", "same", "apple", "bright"] * 16
    assert lucene.search_in_threads(few, queries, 3) == lucene.search(few, queries, 3)


def test_parameters_can_be_changed_when_searching(few: Path, lucene: LuceneProcess) -> None:
    # "appl" occurs 3 times in a passage of 4 terms and in no other; the mean length is 174 / 43.
    idf = math.log(1 + (43 - 1 + 0.5) / 1.5)
    for k1, b in ((0.9, 0.4), (2.0, 0.0), (1.2, 1.0)):
        ((hit,),) = lucene.search(few, ["apple"], 1, k1=k1, b=b)
        assert hit.score == pytest.approx(
            idf * 3 / (3 + k1 * (1 - b + b * 4 / (174 / 43))), abs=1e-4
        )


def test_a_torn_index_is_one_clear_error(few: Path, lucene: LuceneProcess, tmp_path: Path) -> None:
    for name, pattern in (("segments*", "no segments"), ("*.fdt", "Problem reading")):
        torn = tmp_path / name.strip("*.")
        shutil.copytree(few, torn)
        for path in (torn / "lucene").glob(name):
            path.unlink()
        with pytest.raises(ToolformerError, match=f"Lucene cannot open it .*{pattern}") as caught:
            lucene.search(torn, ["moon"], 1)
        assert "\n" not in str(caught.value)
    shutil.copytree(few, tmp_path / "mixed")
    meta = tmp_path / "mixed" / "meta.json"
    meta.write_text(meta.read_text().replace('"num_passages": 43', '"num_passages": 44'))
    with pytest.raises(ToolformerError, match="its files are of different indexes"):
        lucene.search(tmp_path / "mixed", ["moon"], 1)


HOSTILE = [
    "", " ", "\0", "the of and", '""', "?!(", "\\", "AND", "OR NOT", "moon~2 *", "a:b:c",
    "[a TO b]", "x" * 5000, "\ud800", "\u6f22\u5b57 \u5b66\u6821" * 700, "\U0001f30a" * 3000,
    "\u0130" * 100,
    " ".join(f"word{i}" for i in range(3000)), "(" * 5000, "+-&&||!(){}[]^\"~*?:\\/" * 200,
    "\u200b\u202e\ufeff", "e\u0301" * 2000, "a." * 2500, "'" * 100, "\r\n\t\v\f",
]  # fmt: skip


def test_no_query_of_a_model_raises(few: Path, lucene: LuceneProcess) -> None:
    answers = lucene.search(few, HOSTILE, 3)
    assert len(answers) == len(HOSTILE)
    for query, hits in zip(HOSTILE, answers, strict=True):
        assert bool(hits) == ("moon" in query), query[:30]
    marked = [f"{query} \0 moon" for query in HOSTILE if len(query) < 100]
    assert all(hits and hits[0].passage_id == 0 for hits in lucene.search(few, marked, 1))


def test_terms_after_the_64th_are_ignored(few: Path, lucene: LuceneProcess) -> None:
    for filler, num_fillers in (("unknown ", 63), ("the unknown, ", 63), ("\U0001f600 ", 63)):
        short, whole, long = (filler * (num_fillers + n) + "apple" for n in (-1, 0, 1))
        found = lucene.search(few, [short, whole, long], 1)
        assert [[hit.passage_id for hit in hits] for hits in found] == [[42], [42], []]


@pytest.fixture(scope="module")
def zipf() -> list[Passage]:
    """Of 20 to 60 words: most lengths are not exact in Lucene's one byte."""
    rng = random.Random(1)
    return [
        replace(passage, text=" ".join(passage.text.split()[: rng.randint(20, 60)]))
        for passage in generated_passages(3000, seed=1)
    ]


@pytest.fixture(scope="module")
def zipf_index(zipf: list[Passage], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(zipf, tmp_path_factory.mktemp("zipf"))


def test_a_result_does_not_depend_on_its_batch(
    zipf: list[Passage], zipf_index: Path, lucene: LuceneProcess
) -> None:
    queries = generated_queries(300, seed=3)
    found = lucene.search(zipf_index, queries, 5)
    assert [lucene.search(zipf_index, [query], 5)[0] for query in queries[:20]] == found[:20]
    assert lucene.search(zipf_index, queries[::-1], 5, threads=4)[::-1] == found
    check_overlap(found, build_index(zipf), queries, at_least=0.98)


def test_the_first_hits_do_not_depend_on_how_many_are_asked_for(
    few: Path, zipf_index: Path, lucene: LuceneProcess
) -> None:
    queries = generated_queries(60, seed=7)
    many = lucene.search(zipf_index, queries, 24)
    assert lucene.search(zipf_index, queries, 5, threads=4) == [hits[:5] for hits in many]
    (same,) = lucene.search(few, ["same"], 40)
    assert lucene.search(few, ["same"], 6) == [same[:6]]


def test_later_pages_go_on_after_the_passages_of_the_page_before(
    zipf_index: Path, lucene: LuceneProcess
) -> None:
    queries = generated_queries(10, seed=8)
    requests = [ToolRequest(input=query, page=page) for page in (1, 0, 2) for query in queries]
    options = {"top_k": 3, "max_result_words": 1000}
    answers = lucene.answers(zipf_index, requests, **options)
    second, first, third = answers[:10], answers[10:20], answers[20:]
    found = lucene.search(zipf_index, queries, 9)
    for one, two, three, hits in zip(first, second, third, found, strict=True):
        texts = [hit.passage.result() for hit in hits]
        assert [one, two, three] == [
            ToolResult.ok(" ".join(texts[n : n + 3]))
            if n < len(texts)
            else ToolResult.empty("no more passages found")
            for n in (0, 3, 6)
        ]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux tells what is shared")
def test_processes_share_the_pages_of_an_index(zipf_index: Path, lucene: LuceneProcess) -> None:
    other = LuceneProcess()
    queries = generated_queries(50, seed=5)
    for process in (lucene, other):
        process.search(zipf_index, queries, 50)
    resident, proportional = mapped_bytes(other.pid, zipf_index)
    assert resident > 500_000
    assert proportional < 0.6 * resident  # a page that two processes map counts half in each
    assert other.close() == 0


def mapped_bytes(pid: int, directory: Path) -> tuple[int, int]:
    """Rss and Pss of what process `pid` maps of the files in `directory`."""
    sizes = {"Rss:": 0, "Pss:": 0}
    is_ours = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            is_ours = str(directory) in line
        elif is_ours and name in sizes:
            sizes[name] += int(values[0]) * 1024
    return sizes["Rss:"], sizes["Pss:"]


@pytest.mark.shared_data
@pytest.mark.skipif(not DATA.is_dir(), reason="no shared/data/wiki_passages beside the checkout")
def test_real_passages_are_found_by_both(
    tmp_path_factory: pytest.TempPathFactory, lucene: LuceneProcess
) -> None:
    passages = list(read_passages([DATA / name for name in FILES], ReadCounts()))
    index = build(passages, tmp_path_factory.mktemp("real"))
    rng = random.Random(1)
    queries = [passage.title for passage in rng.sample(passages, 100)]
    for passage in rng.sample(passages, 200):
        words = [word for word in re.findall(r"[\w'.]+", passage.text) if len(word) > 3]
        queries.append(" ".join(rng.sample(words, min(len(words), rng.randint(2, 5)))))
    check_overlap(lucene.search(index, queries, 5), build_index(passages), queries, at_least=0.97)
    ours, theirs = [], []
    texts = [passage.index_text() for passage in rng.sample(passages, 200)]
    for text, terms in zip(texts, lucene.terms(texts), strict=True):
        ours += list(Analyzer().terms(text))
        theirs += terms
    assert num_equal(ours, theirs) > 0.995 * len(theirs)


def check_overlap(
    found: list[list[Hit]], memory: BM25Index, queries: list[str], *, at_least: float
) -> None:
    """Of the top 5 of memory this share is in the top 5 of Lucene."""
    expected = memory.search_batch(queries, 5)
    ids = [{hit.passage_id for hit in hits} for hits in found]
    num_both = sum(
        hit.passage_id in own for own, hits in zip(ids, expected, strict=True) for hit in hits
    )
    overlap = num_both / sum(map(len, expected))
    print(f"overlap {overlap:.4f}")
    assert overlap >= at_least


def num_equal(a: list[str], b: list[str]) -> int:
    return sum((Counter(a) & Counter(b)).values())
