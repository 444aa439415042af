"""From questions to answers: embed, search, fetch the passages, read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch

from tools.atlas.formats import query_of, reader_row
from tools.atlas.options import AtlasOptions
from tools.atlas.passages import Passages
from tools.atlas.reader import Reader
from tools.atlas.retriever import Retriever
from tools.atlas.saved import EMBEDDINGS, INDEX, READER, RETRIEVER
from tools.atlas.search import FlatIndex, rows_of, use_one_thread
from tools.atlas.shapes import IndexShapes
from tools.base import ConfigError


class Index(Protocol):
    """Keys [Q, k] of the best rows for queries [Q, D]; see search.py."""

    def search(self, queries_QD: torch.Tensor, k: int) -> torch.Tensor: ...


class Atlas:
    """A converted Atlas, loaded.

    Raises:
        ConfigError: there is no such device, or no Ray cluster or no place in it for the index.
        InputError: the files are torn or of different models.
    """

    def __init__(self, directory: Path, options: AtlasOptions, *, content_hash: str) -> None:
        device = _device(options.device)
        self._n_context = options.n_context
        self._retriever = Retriever(directory / RETRIEVER, device=device)
        self._reader = Reader(
            directory / READER,
            n_context=options.n_context,
            decoder_batch=options.decoder_batch,
            max_new_tokens=options.max_new_tokens,
            dtype=getattr(torch, options.dtype),
            device=device,
        )
        self._passages = Passages(directory / INDEX)
        self._index = self._open_index(
            directory / INDEX / EMBEDDINGS, options, content_hash, device
        )

    def _open_index(
        self, path: Path, options: AtlasOptions, content_hash: str, device: torch.device
    ) -> Index:
        num_rows = self._passages.meta.num_passages
        if not options.index_actors:
            return FlatIndex(path, shapes=IndexShapes(num_rows=num_rows), device=device)
        from tools.atlas.shards import ShardedIndex  # Ray

        index = ShardedIndex(
            path,
            content_hash=content_hash,
            num_rows=num_rows,
            num_actors=options.index_actors,
            num_gpus=options.index_num_gpus,
        )
        index.load()
        return index

    def answer(self, questions: Sequence[str]) -> list[str]:
        """One answer for each question, "" where the reader says nothing."""
        use_one_thread()
        queries = [query_of(question) for question in questions]
        rows_QK = self.retrieve(queries)
        return self._reader.answer(
            [
                [self._reader_row(query, row) for row in rows]
                for query, rows in zip(queries, rows_QK, strict=True)
            ]
        )

    def retrieve(self, queries: Sequence[str]) -> list[list[int]]:
        """The rows of the passages for each query, best first."""
        if not queries:
            return []
        keys_QK = self._index.search(self._retriever.embed(queries), self._n_context)
        rows: list[list[int]] = rows_of(keys_QK).tolist()
        return rows

    def _reader_row(self, query: str, row: int) -> str:
        title, text = self._passages.get(row)
        return reader_row(query, title=title, text=text)


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("QA: device is cuda, but torch finds no CUDA device")
    return torch.device(name)
