"""The WikiSearch tool: a search term in, a snippet of an encyclopedia out (paper section 3)."""

from collections.abc import Sequence
from pathlib import Path

import bm25s

from tools.base import ConfigError, ToolRequest, ToolResult
from tools.calls import sanitize_result
from tools.wikisearch.bm25 import BM25Index, build_index, clean_query
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.saved import load_index
from tools.wikisearch.sentences import cut_at_sentence_end


class WikiSearch:
    """BM25 over Wikipedia passages, each answer as "Title > Section > snippet" (Table 10).

    Args:
        index: directory written by `python -m tools index-wikipedia`.
        corpus: instead of it, a file of a few hundred pages to index in memory now.
        top_k: passages in a result, one after the other.
        max_result_words: longer results are cut, at the end of a sentence where possible.

    Raises:
        ConfigError: a path is missing, or not exactly one of `index` and `corpus` is given.
        InputError: the index or the corpus cannot be used.
    """

    name = "WikiSearch"

    def __init__(
        self,
        *,
        index: str | None = None,
        corpus: str | None = None,
        top_k: int = 1,
        max_result_words: int = 80,
    ) -> None:
        for option, value in (("top_k", top_k), ("max_result_words", max_result_words)):
            if value < 1:
                raise ConfigError(f"WikiSearch: {option} is {value}, expected at least 1")
        self._index = _open_index(index=index, corpus=corpus)
        self._top_k = top_k
        self._max_result_words = max_result_words
        scorer = self._index.scorer
        self.version = (
            f"1:{self._index.content_hash[:16]}:bm25s={bm25s.__version__}:k1={scorer.k1}:b={scorer.b}"
            f":top_k={top_k}:max_result_words={max_result_words}"
        )

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        return [self._answer(request.input) for request in requests]

    def _answer(self, query: str) -> ToolResult:
        if not clean_query(query):
            return ToolResult.invalid("an empty search term")
        hits = self._index.search(query, self._top_k)
        text = sanitize_result("\n".join(hit.passage.result() for hit in hits))
        if not text:
            return ToolResult.empty("no passage found")
        return ToolResult.ok(cut_at_sentence_end(text, self._max_result_words))


def _open_index(*, index: str | None, corpus: str | None) -> BM25Index:
    if index is not None and corpus is None:
        return load_index(Path(index))
    if corpus is not None and index is None:
        path = Path(corpus)
        if not path.is_file():
            raise ConfigError(f"WikiSearch: corpus {path}: no such file")
        return build_index(read_passages([path], ReadCounts()))
    raise ConfigError("WikiSearch: give either index (a directory) or corpus (a file)")
