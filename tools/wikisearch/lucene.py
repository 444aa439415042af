"""Passages searched by Lucene through Anserini: all of Wikipedia, from the disk.

Lucene reads its files through memory maps, so that the processes of one machine share them in the
page cache; each has a JVM with a small heap of its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.base import InputError, one_line
from tools.calls import unquoted
from tools.wikisearch.index import MAX_QUERY_TERMS, Hit
from tools.wikisearch.jvm import as_java_interface, java_calls, java_class, java_string, start_jvm
from tools.wikisearch.passages import Passage

FIELD = "contents"
_ATTRIBUTES = "org.apache.lucene.analysis.tokenattributes"


class LuceneIndex:
    """A PassageIndex over a directory of Anserini's IndexCollection with `-storeContents`.

    A document's id is its passage_id with leading zeros and its contents Passage.index_text.
    Lucene keeps the length of a passage in one byte: exact up to 40 terms, then in steps, which
    moves scores a little from those of BM25Index. Anserini rounds them to 4 decimals in a hit.

    Raises:
        ConfigError: Java is missing or does not start with `heap_mb`.
        InputError: Lucene cannot open the directory.
    """

    def __init__(
        self,
        directory: Path,
        *,
        k1: float,
        b: float,
        content_hash: str,
        heap_mb: int,
        threads: int,
    ) -> None:
        self.content_hash = content_hash
        self._threads = threads
        start_jvm(heap_mb)
        with java_calls():
            self._searcher = _open(directory, k1, b)
            self.num_passages = int(self._searcher.get_total_num_docs())

    def search(self, query: str, k: int) -> list[Hit]:
        """As PassageIndex says."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """What `search` finds for each query, in order; a thread of Java takes one at a time."""
        if not queries:
            return []
        with java_calls():
            return self._search_batch(queries, k)

    def _search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        # In a function of its own: every reference to Java is gone when the thread lets go of it.
        texts = [self._first_terms(unquoted(query)) for query in queries]
        if self._threads == 1 or len(texts) == 1:  # Anserini starts and ends threads for a batch
            found = [self._searcher.search(text, k) for text in texts]
        else:
            found = self._search_in_threads(texts, k)
        return [[_hit(document) for document in documents] for documents in found]

    def _search_in_threads(self, texts: Sequence[Any], k: int) -> list[Any]:
        array_list = java_class("java.util.ArrayList")
        queries, keys = array_list(), array_list()
        for number, text in enumerate(texts):
            queries.add(text)
            keys.add(str(number))
        found = self._searcher.batch_search(queries, keys, k, self._threads)
        return [found.get(str(number)) for number in range(len(texts))]

    def _first_terms(self, query: str) -> Any:
        """`query` as Java's, up to the end of its 64th term: Lucene refuses more than 1024."""
        text = java_string(query)
        if len(query) <= MAX_QUERY_TERMS:  # a term has at least a character
            return text
        analyzer = self._searcher.get_analyzer()
        analyze = java_class("io.anserini.analysis.AnalyzerUtils").analyze
        if analyze(analyzer, text).size() <= MAX_QUERY_TERMS:
            return text
        return java_string(text.substring(0, _end_of_term(analyzer, text, MAX_QUERY_TERMS)))


def _end_of_term(analyzer: Any, text: Any, number: int) -> int:
    """Where in `text` its term `number` ends, counted from 1, in Java's characters."""
    offset_class = java_class("java.lang.Class").forName(f"{_ATTRIBUTES}.OffsetAttribute")
    stream = analyzer.tokenStream(FIELD, text)
    offset = as_java_interface(f"{_ATTRIBUTES}.OffsetAttribute", stream.addAttribute(offset_class))
    stream.reset()
    for _ in range(number):
        stream.incrementToken()
    end = int(offset.endOffset())
    stream.close()
    return end


def _open(directory: Path, k1: float, b: float) -> Any:
    try:
        searcher = java_class("io.anserini.search.SimpleSearcher")(str(directory))
        searcher.set_bm25(k1, b)
    except Exception as error:  # pyjnius raises Java's as one of its own
        raise InputError(
            f"{directory}: Lucene cannot open it ({one_line(error)[:160]}); build the index again "
            "with index-wikipedia"
        ) from None
    return searcher


def _hit(document: Any) -> Hit:
    return Hit(
        passage_id=int(document.docid),
        score=float(document.score),
        passage=Passage.from_index_text(document.lucene_document.get(FIELD)),
    )
