"""The WikiSearch tool: a search term in, a snippet of an encyclopedia out (paper section 3)."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import bm25s

from tools.base import ConfigError, InputError, ToolRequest, ToolResult
from tools.calls import sanitize_result, unquoted
from tools.wikisearch.bm25 import build_index
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.index import K1, B, Hit, PassageIndex
from tools.wikisearch.jvm import anserini_version, check_java
from tools.wikisearch.saved import IndexMeta, load_index, read_meta
from tools.wikisearch.sentences import cut_at_sentence_end

# Changes with whatever else changes an answer: how pages are cut and terms and results are made.
_VERSION = "2"


class WikiSearch:
    """BM25 over Wikipedia passages, each answer as "Title > Section > snippet" (Table 10).

    A later page of a search answers with the passages that come after those of the page before.

    Args:
        index: directory written by `python -m tools index-wikipedia`, of either backend.
        corpus: instead of it, a file of a few hundred pages to index in memory.
        top_k: passages in a result, one after the other.
        max_result_words: longer results are cut, at the end of a sentence where possible.
        k1, b: BM25's parameters, else those of the index. An index in memory has its own built in.
        java_heap_mb: the most a Lucene index takes for itself; its files are in the page cache.
        threads: queries of one batch that Lucene searches at the same time.

    Raises:
        ConfigError: a path or Java is missing, or an option is wrong or does not fit the index.
        InputError: the index or the corpus cannot be used.
    """

    name = "WikiSearch"
    pages = True

    def __init__(
        self,
        *,
        index: str | None = None,
        corpus: str | None = None,
        top_k: int = 1,
        max_result_words: int = 80,
        k1: float | None = None,
        b: float | None = None,
        java_heap_mb: int = 1024,
        threads: int = 1,
    ) -> None:
        _check_options(top_k=top_k, max_result_words=max_result_words, threads=threads, k1=k1, b=b)
        self._place = _place(index=index, corpus=corpus)
        self._meta = read_meta(self._place) if index is not None else None
        self._k1, self._b, self._heap_mb, self._threads = k1, b, java_heap_mb, threads
        self._top_k = top_k
        self._max_result_words = max_result_words
        self._index: PassageIndex | None = None
        content = self._corpus_version() if self._meta is None else self._index_version(self._meta)
        self.version = f"{_VERSION}:{content}:top_k={top_k}:max_result_words={max_result_words}"

    def _corpus_version(self) -> str:
        self._k1 = K1 if self._k1 is None else self._k1
        self._b = B if self._b is None else self._b
        digest = _file_hash(self._place)[:16]
        return f"corpus={digest}:bm25s={bm25s.__version__}:k1={self._k1}:b={self._b}"

    def _index_version(self, meta: IndexMeta) -> str:
        k1 = meta.k1 if self._k1 is None else self._k1
        b = meta.b if self._b is None else self._b
        if meta.backend == "lucene":
            check_java()
            engine = f"anserini={anserini_version()}"
        else:
            if (k1, b) != (meta.k1, meta.b):
                raise ConfigError(
                    f"WikiSearch: k1={k1} and b={b}, but {self._place} was built for memory with "
                    f"k1={meta.k1} and b={meta.b}; leave them out or build it again"
                )
            engine = f"bm25s={bm25s.__version__}"
        written = f"index={meta.content_hash[:16]}:{meta.backend}:{meta.engine}"
        return f"{written}:searched:{engine}:k1={k1}:b={b}"

    def load(self) -> None:
        """Load the index, or build that of the corpus, unless it is done.

        Raises:
            ConfigError: Java cannot start.
            InputError: the index or the corpus cannot be used.
        """
        self._loaded()

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        index = self._loaded()
        asked = [n for n, request in enumerate(requests) if unquoted(request.input)]
        results = [ToolResult.invalid("an empty search term")] * len(requests)
        # The first hits are the same however many are asked for.
        depth = (max((requests[n].page for n in asked), default=0) + 1) * self._top_k
        hits = index.search_batch([requests[n].input for n in asked], depth)
        for n, found in zip(asked, hits, strict=True):
            first = requests[n].page * self._top_k
            results[n] = self._result(found[first : first + self._top_k], requests[n].page)
        return results

    def _loaded(self) -> PassageIndex:
        if self._index is None:
            self._index = self._load()
        return self._index

    def _load(self) -> PassageIndex:
        if self._meta is None:
            passages = read_passages([self._place], ReadCounts())
            assert self._k1 is not None and self._b is not None
            return build_index(passages, k1=self._k1, b=self._b)
        return load_index(
            self._place, k1=self._k1, b=self._b, heap_mb=self._heap_mb, threads=self._threads
        )

    def _result(self, hits: Sequence[Hit], page: int) -> ToolResult:
        text = sanitize_result("\n".join(hit.passage.result() for hit in hits))
        if not text:
            return ToolResult.empty(f"no {'more passages' if page else 'passage'} found")
        return ToolResult.ok(cut_at_sentence_end(text, self._max_result_words))


def _check_options(*, k1: float | None, b: float | None, **counts: int) -> None:
    for option, value in counts.items():
        if value < 1:
            raise ConfigError(f"WikiSearch: {option} is {value}, expected at least 1")
    if k1 is not None and not 0 <= k1 < float("inf"):
        raise ConfigError(f"WikiSearch: k1 is {k1}, expected at least 0")
    if b is not None and not 0 <= b <= 1:
        raise ConfigError(f"WikiSearch: b is {b}, expected 0 to 1")


def _place(*, index: str | None, corpus: str | None) -> Path:
    if index is not None and corpus is None:
        return Path(index)
    if corpus is not None and index is None:
        if not Path(corpus).is_file():
            raise ConfigError(f"WikiSearch: corpus {corpus}: no such file")
        return Path(corpus)
    raise ConfigError("WikiSearch: give either index (a directory) or corpus (a file)")


def _file_hash(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
