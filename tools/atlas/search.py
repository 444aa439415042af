"""Exact search: the inner product of a query with every embedding of the index.

Shapes: Q queries, C rows of a chunk, K results, D dimensions.

Differs from the paper: Atlas multiplies in float16. Here the float16 embeddings are widened and
products are summed in float32, on every device, so that the order of results does not hang on the
eleven bits of a half. Equal scores stand in the order of their rows.

A result travels as one int64: the score's bits, in an order that integers keep, above the row
counted backwards. Then the best results are the largest keys, ties included, and merging the
results of shards is one more top-k.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from tools.atlas.shapes import IndexShapes
from tools.base import InputError

_LOW = 0xFFFFFFFF
_NO_RESULT = torch.iinfo(torch.int64).min


class FlatIndex:
    """The rows [start, stop) of an index; float16 in a memory map, or on an accelerator.

    Raises:
        InputError: the file is torn or not an index.
    """

    def __init__(
        self,
        path: Path,
        *,
        shapes: IndexShapes,
        rows: tuple[int, int] | None = None,
        device: torch.device,
        resident: bool = False,
    ) -> None:
        """With `resident` the rows are kept on the device, otherwise they pass through it."""
        try:
            # Not "c": Linux sets memory aside for all of a private map that can be written.
            embeddings_nd = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: cannot read: {error}") from None
        if embeddings_nd.ndim != 2 or len(embeddings_nd) != shapes.num_rows:
            raise InputError(
                f"{path}: the shape {embeddings_nd.shape}, expected {shapes.num_rows} rows"
            )
        self._start, self._stop = rows if rows is not None else (0, shapes.num_rows)
        self._rows_nd = _read_only_tensor(embeddings_nd[self._start : self._stop])
        if resident:
            self._rows_nd = self._rows_nd.to(device)
        self._shapes, self._device = shapes, device

    @torch.inference_mode()
    def search(self, queries_QD: torch.Tensor, k: int) -> torch.Tensor:
        """The keys [Q, k] of the best rows, best first; no more rows than there are."""
        size = self._shapes.queries_per_pass
        num_queries = len(queries_QD)
        padded_QD = torch.zeros(
            (-(-num_queries // size) * size, queries_QD.shape[1]), device=self._device
        )
        padded_QD[:num_queries] = queries_QD.to(self._device, torch.float32)
        parts = [self._search_pass(part_QD, k) for part_QD in torch.split(padded_QD, size)]
        keys_QK = torch.cat(parts)[:num_queries].cpu() if parts else _nothing(0, k)
        return keys_QK[:, : min(k, self._stop - self._start)]

    def _search_pass(self, queries_QD: torch.Tensor, k: int) -> torch.Tensor:
        best_QK = _nothing(len(queries_QD), k).to(self._device)
        for first_row, num_rows, chunk_CD in self._chunks():
            scores_QC = (queries_QD @ chunk_CD.T)[:, :num_rows]
            # A later row must be strictly better; most chunks have nothing for most queries.
            is_better_Q = scores_QC.amax(1) > _scores(best_QK[:, -1])
            if not is_better_Q.any():
                continue
            chunk_keys = _keys(scores_QC[is_better_Q], first_row)
            chunk_keys = chunk_keys.topk(min(k, num_rows), dim=1).values
            merged = torch.cat([best_QK[is_better_Q], chunk_keys], dim=1)
            best_QK[is_better_Q] = merged.topk(k, dim=1).values
        return best_QK

    def _chunks(self) -> Iterator[tuple[int, int, torch.Tensor]]:
        """(first row, number of rows, float32 [chunk_rows, D] filled up with zeros)."""
        size = self._shapes.chunk_rows
        chunk_CD = torch.zeros((size, self._rows_nd.shape[1]), device=self._device)
        for start in range(0, len(self._rows_nd), size):
            rows = self._rows_nd[start : start + size]
            chunk_CD[: len(rows)] = rows.to(self._device)
            chunk_CD[len(rows) :] = 0
            yield self._start + start, len(rows), chunk_CD


def _read_only_tensor(array_nd: np.ndarray) -> torch.Tensor:
    """The memory of `array_nd` as a tensor, which nothing here writes: to write it is a crash."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array_nd)


def use_one_thread() -> None:
    """Compute on one thread of the CPU from here on: with two, bits depend on a row's place.

    This holds for all of the process, in which another tool may have set another number since; so
    it is called before every computation.
    """
    torch.set_num_threads(1)


def merge(shards: Sequence[torch.Tensor], k: int) -> torch.Tensor:
    """The best `k` of the keys [Q, ...] of several shards."""
    keys_QN = torch.cat(list(shards), dim=1)
    return keys_QN.topk(min(k, keys_QN.shape[1]), dim=1).values


def rows_of(keys: torch.Tensor) -> torch.Tensor:
    """The rows of the index that `keys` stand for."""
    return _LOW - (keys & _LOW)


def _keys(scores_QC: torch.Tensor, first_row: int) -> torch.Tensor:
    bits = (scores_QC + 0.0).view(torch.int32)  # + 0.0: -0 and 0 are one score
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
    last_row = first_row + scores_QC.shape[1]
    rows_C = torch.arange(first_row, last_row, device=scores_QC.device)
    return (ordered << 32) | (_LOW - rows_C)


def _scores(keys: torch.Tensor) -> torch.Tensor:
    """The scores of `keys`; -inf where there is no result yet."""
    ordered = (keys >> 32).to(torch.int32)
    bits = torch.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered)
    return torch.where(keys == _NO_RESULT, -torch.inf, bits.view(torch.float32))


def _nothing(num_queries: int, k: int) -> torch.Tensor:
    return torch.full((num_queries, k), _NO_RESULT)
