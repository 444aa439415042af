"""WikiSearch as a tool: settings, results, statuses, version."""

import json
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError, Tool, ToolRequest, ToolResult
from tools.wikisearch.bm25 import build_index
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.saved import save_index
from tools.wikisearch.tool import WikiSearch

PAGES = [
    ["Spin fishing", "Spin fishing uses a rod [and reel] -> cast it far.", "Section::::Reels.",
     "There are two reels. The open faced reel is one."],
    ["Moon", "The moon is a satellite of the earth."],
]  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    lines = [json.dumps({"wikipedia_title": page[0], "text": page}) for page in PAGES]
    path.write_text("\n".join(lines))
    return path


def ask(tool: Tool, *queries: str) -> list[ToolResult]:
    return tool.run([ToolRequest(input=query) for query in queries])


def test_a_result_is_one_line_that_cannot_end_a_call(corpus: Path) -> None:
    (result,) = ask(WikiSearch(corpus=str(corpus)), '"spin fishing rod"')
    assert result == ToolResult.ok(
        "Spin fishing > Spin fishing uses a rod (and reel) - cast it far."
    )


def test_results_come_one_for_each_request_in_order(corpus: Path) -> None:
    results = ask(WikiSearch(corpus=str(corpus)), "moon", "", "the", "quasar", "reels")
    assert [result.status for result in results] == ["ok", "invalid", "empty", "empty", "ok"]
    assert results[0].result == "Moon > The moon is a satellite of the earth."
    assert results[4].result == (
        "Spin fishing > Reels > There are two reels. The open faced reel is one."
    )


def test_several_passages_follow_each_other(corpus: Path) -> None:
    (result,) = ask(WikiSearch(corpus=str(corpus), top_k=2), "reels")
    assert result.result == (
        "Spin fishing > Reels > There are two reels. The open faced reel is one. "
        "Spin fishing > Spin fishing uses a rod (and reel) - cast it far."
    )


def test_later_pages_go_on_after_the_passages_of_the_page_before(tmp_path: Path) -> None:
    pages = [[f"Page {n}", "A moon " + "and another " * n + "moon shines."] for n in range(1, 6)]
    lines = [json.dumps({"wikipedia_title": page[0], "text": page}) for page in [*pages, *PAGES]]
    (tmp_path / "pages.jsonl").write_text("\n".join(lines))
    corpus = str(tmp_path / "pages.jsonl")
    (all_six,) = ask(WikiSearch(corpus=corpus, top_k=6, max_result_words=500), "moon")
    tool = WikiSearch(corpus=corpus, top_k=2, max_result_words=500)
    batch = [("moon", 2), ("rod", 0), ("moon", 0), ("", 1), ("moon", 3), ("moon", 1), ("rod", 1)]
    results = tool.run([ToolRequest(input=text, page=page) for text, page in batch])
    third, rod, first, blank, fourth, second, no_more = results
    assert [first, rod] == ask(tool, "moon", "rod")
    assert all_six.result is not None and all_six.result.count(" > ") == 6
    assert all_six.result == " ".join(str(page.result) for page in (first, second, third))
    assert fourth == no_more == ToolResult.empty("no more passages found")
    assert blank == ToolResult.invalid("an empty search term")
    assert rod.result is not None


def test_a_long_result_ends_with_a_sentence(corpus: Path) -> None:
    (result,) = ask(WikiSearch(corpus=str(corpus), max_result_words=12), "reels")
    assert result.result == "Spin fishing > Reels > There are two reels."


def test_a_saved_index_and_its_corpus_answer_the_same(corpus: Path, tmp_path: Path) -> None:
    save_index(build_index(read_passages([corpus], ReadCounts())), tmp_path / "idx")
    saved, built = WikiSearch(index=str(tmp_path / "idx")), WikiSearch(corpus=str(corpus))
    assert ask(saved, "moon", "rod") == ask(built, "moon", "rod")


def test_constructing_reads_no_more_than_the_meta_data(corpus: Path, tmp_path: Path) -> None:
    save_index(build_index(read_passages([corpus], ReadCounts())), tmp_path / "idx")
    for path in (tmp_path / "idx").iterdir():
        if path.name != "meta.json":
            path.unlink()
    tool = WikiSearch(index=str(tmp_path / "idx"))
    with pytest.raises(InputError, match="not a whole WikiSearch index"):
        tool.load()
    corpus.write_text("no page")
    tool = WikiSearch(corpus=str(corpus))
    with pytest.raises(InputError, match="no passage in 1 lines"):
        tool.load()


def test_parameters_of_bm25_are_those_of_the_index(corpus: Path, tmp_path: Path) -> None:
    save_index(build_index(read_passages([corpus], ReadCounts()), k1=1.2, b=0.75), tmp_path / "idx")
    tool = WikiSearch(index=str(tmp_path / "idx"), k1=1.2)
    assert "k1=1.2:b=0.75" in tool.version
    with pytest.raises(
        ConfigError, match=r"b=0\.4, but .* was built for memory with k1=1\.2 and b=0"
    ):
        WikiSearch(index=str(tmp_path / "idx"), b=0.4)


def test_the_version_changes_with_corpus_and_parameters(corpus: Path) -> None:
    versions = {
        WikiSearch(corpus=str(corpus)).version,
        WikiSearch(corpus=str(corpus), top_k=2).version,
        WikiSearch(corpus=str(corpus), max_result_words=20).version,
        WikiSearch(corpus=str(corpus), k1=1.2).version,
        WikiSearch(corpus=str(corpus), b=0.5).version,
    }
    corpus.write_text(corpus.read_text().replace("satellite", "companion"))
    versions.add(WikiSearch(corpus=str(corpus)).version)
    assert len(versions) == 6


def test_wrong_settings_are_named(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        WikiSearch(corpus=str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="no such directory"):
        WikiSearch(index=str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="either index"):
        WikiSearch()
    with pytest.raises(ConfigError, match="either index"):
        WikiSearch(index=str(tmp_path), corpus=str(corpus))
    with pytest.raises(ConfigError, match="top_k is 0"):
        WikiSearch(corpus=str(corpus), top_k=0)
    with pytest.raises(ConfigError, match="max_result_words is -1"):
        WikiSearch(corpus=str(corpus), max_result_words=-1)
    with pytest.raises(ConfigError, match="k1 is nan"):
        WikiSearch(corpus=str(corpus), k1=float("nan"))
    with pytest.raises(ConfigError, match="b is 2"):
        WikiSearch(corpus=str(corpus), b=2)
