"""A BM25 index over passages, a few million at most (paper section 3, Wikipedia Search).

score(q, d) = sum over t in q of  ln(1 + (N - n_t + 0.5) / (n_t + 0.5))
                                  * tf / (tf + k1 (1 - b + b |d| / avgdl))

Lucene's formula and Anserini's parameters; bm25s computes every term's share when it indexes, so
a search adds up columns. Scores are float32.
"""

import logging
from array import array
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import bm25s
import numpy as np
import pyarrow as pa

from tools.base import InputError
from tools.calls import unquoted
from tools.wikisearch.index import K1, MAX_QUERY_TERMS, B, Hit
from tools.wikisearch.passages import ContentHash, Passage
from tools.wikisearch.terms import Analyzer

PASSAGE_SCHEMA = pa.schema(
    [
        pa.field("title", pa.string(), nullable=False),
        pa.field("section", pa.list_(pa.string()), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)
_ROWS_PER_BATCH = 8192

logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets itself to DEBUG


class BM25Index:
    """A PassageIndex of passages (PASSAGE_SCHEMA, row = passage_id) and scores of their terms."""

    def __init__(self, *, passages: pa.Table, scorer: bm25s.BM25, content_hash: str) -> None:
        self.passages = passages
        self.scorer = scorer
        self.content_hash = content_hash
        self._analyzer = Analyzer()

    def search(self, query: str, k: int) -> list[Hit]:
        """As PassageIndex says."""
        terms = islice(self._analyzer.terms(unquoted(query)), MAX_QUERY_TERMS)
        term_ids = self.scorer.get_tokens_ids(terms)
        if not term_ids:
            return []
        scores_N = self.scorer.get_scores_from_ids(term_ids)
        return [
            Hit(passage_id=i, score=float(scores_N[i]), passage=self._passage(i))
            for i in best(scores_N, k)
        ]

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """What `search` finds for each query, in order."""
        return [self.search(query, k) for query in queries]

    def _passage(self, passage_id: int) -> Passage:
        row: dict[str, Any] = self.passages.slice(passage_id, 1).to_pylist()[0]
        return Passage(title=row["title"], section=tuple(row["section"]), text=row["text"])


def best(scores_N: np.ndarray, k: int) -> list[int]:
    """The places of the `k` highest scores above 0, best first, equal scores in order of place."""
    places = np.flatnonzero(scores_N > 0)
    if len(places) > k:
        kth = np.partition(scores_N[places], -k)[-k]
        places = places[scores_N[places] >= kth]
    order = np.lexsort((places, -scores_N[places]))[:k]
    return [int(place) for place in places[order]]


def build_index(passages: Iterable[Passage], *, k1: float = K1, b: float = B) -> BM25Index:
    """The index of `passages`, in memory; the same passages give the same index.

    Raises:
        InputError: there is no term to index.
    """
    analyzer = Analyzer()
    # Term ids in order of first appearance: bm25s' own numbering changes from process to process.
    vocabulary: dict[str, int] = {}
    term_ids_of_passages: list[array[int]] = []
    content_hash = ContentHash()
    batches: list[pa.RecordBatch] = []
    rest = iter(passages)
    while rows := list(islice(rest, _ROWS_PER_BATCH)):
        for passage in rows:
            terms = analyzer.terms(passage.index_text())
            term_ids = (vocabulary.setdefault(term, len(vocabulary)) for term in terms)
            term_ids_of_passages.append(array("i", term_ids))
            content_hash.add(passage)
        batches.append(_batch(rows))
    if not vocabulary:
        raise InputError("there is no passage with a term that can be searched for")
    scorer = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
    scorer.index((term_ids_of_passages, vocabulary), create_empty_token=False, show_progress=False)
    table = pa.Table.from_batches(batches, schema=PASSAGE_SCHEMA)
    return BM25Index(passages=table, scorer=scorer, content_hash=content_hash.hexdigest())


def _batch(rows: list[Passage]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "title": [passage.title for passage in rows],
            "section": [list(passage.section) for passage in rows],
            "text": [passage.text for passage in rows],
        },
        schema=PASSAGE_SCHEMA,
    )
