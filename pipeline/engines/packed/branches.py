"""Branches that grow from kept prefixes, a token of each at every step.

A branch sees three stretches of keys: the beginning all prefixes share (a tool's examples), its
own prefix up to its root, and its own tokens. The first is read once a step for all branches, the
second once for all branches of a document, whatever their number.

Shape suffixes: N branches, B prefixes, S steps, L layers, K key heads, G query heads of each, E
head size, C columns of a stretch, X rows of a prefix in the grid, D hidden size.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.packed.model import KeptTokens
from pipeline.engines.packed.weights import Weights

_SHRINK_BELOW = 0.5  # share of prefixes still in use at which the others' keys are dropped


class Counter(Protocol):
    tokens_run: int


_FIRST_ROOM = 8  # steps that branches have room for at first; doubled when it is full


class _Stretch:
    """Keys and values of some columns in every layer: [L, ..., K, C, E]."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def take(self, index: Tensor) -> None:
        self.keys = self.keys[:, index]  # one after the other: only one is there twice
        self.values = self.values[:, index]

    def take_columns(self, index: Tensor, columns: int, room: int) -> None:
        """The first `columns` of those of `index`, and room for more."""
        self.keys = _with_room(self.keys, index, columns, room)
        self.values = _with_room(self.values, index, columns, room)


def _with_room(old: Tensor, index: Tensor, columns: int, room: int) -> Tensor:
    L, _, K, _, E = old.shape
    new = old.new_empty((L, len(index), K, room, E))
    for layer in range(L):
        new[layer, :, :, :columns] = old[layer, index, :, :columns]
    return new


class PackedBranches:
    """See pipeline.engines.causal_lm.Decoder."""

    def __init__(
        self,
        counter: Counter,
        weights: Weights,
        beginning: KeptTokens | None,
        prefixes: Sequence[KeptTokens],
        roots: Sequence[tuple[int, int]],
    ) -> None:
        self._counter, self._weights = counter, weights
        self._device = weights.embedding.device
        self._beginning = None if beginning is None else _by_heads(beginning)
        self._prefixes = _grid(prefixes, max(length for _, length in roots))
        self._prefix_N = np.array([prefix for prefix, _ in roots], dtype=np.int64)
        self._length_N = np.array([length for _, length in roots], dtype=np.int64)
        self._shared = 0 if beginning is None else len(beginning)
        self._steps = 0
        L, K, E = len(weights.layers), weights.num_kv_heads, weights.head_size
        empty = weights.embedding.new_empty((L, len(roots), K, 0, E))
        self._own = _Stretch(empty, empty)

    def step(self, tokens_N: NDArray[np.int64], parents_N: NDArray[np.int64]) -> Tensor:
        """The hidden states [N, D] of N branches of one more token."""
        self._go_on_from(parents_N)
        w = self._weights
        places = self._shared + self._length_N + self._steps
        places_N = torch.from_numpy(places).to(self._device)
        cos_sin = w.turns(places_N)
        x_ND = w.embed(torch.from_numpy(tokens_N).to(self._device), places_N)
        for index, layer in enumerate(w.layers):
            normed_ND = layer.norm(x_ND)
            q_NHE, k_NKE, v_NKE = w.split(layer.qkv(normed_ND), cos_sin)
            self._own.keys[index, :, :, self._steps] = k_NKE
            self._own.values[index, :, :, self._steps] = v_NKE
            attended_ND = self._attend(index, q_NHE)
            x_ND = layer.after_attention(x_ND, normed_ND, attended_ND)
        self._steps += 1
        self._counter.tokens_run += len(tokens_N)
        return x_ND

    def _go_on_from(self, parents_N: NDArray[np.int64]) -> None:
        same = np.array_equal(parents_N, np.arange(len(self._prefix_N)))
        room = self._own.keys.shape[3]
        if not same or self._steps == room:
            room = max(_FIRST_ROOM, 2 * room) if self._steps == room else room
            parents = torch.from_numpy(parents_N).to(self._device)
            self._own.take_columns(parents, self._steps, room)
        if not same or self._steps == 0:
            self._prefix_N, self._length_N = self._prefix_N[parents_N], self._length_N[parents_N]
            used, self._prefix_N = np.unique(self._prefix_N, return_inverse=True)
            num_prefixes = self._prefixes.keys.shape[1]
            if len(used) <= _SHRINK_BELOW * num_prefixes:
                self._prefixes.take(torch.from_numpy(used).to(self._device))
            else:
                self._prefix_N = used[self._prefix_N]
            self._place_in_grid()

    def _place_in_grid(self) -> None:
        """Where each branch stands among those of its prefix, and which columns it may see."""
        order = np.argsort(self._prefix_N, kind="stable")
        counts = np.bincount(self._prefix_N, minlength=self._prefixes.keys.shape[1])
        firsts = np.cumsum(counts) - counts
        row_N = np.empty(len(order), dtype=np.int64)
        row_N[order] = np.arange(len(order)) - firsts[self._prefix_N[order]]
        self._rows = int(counts.max())
        self._at_B = torch.from_numpy(self._prefix_N).to(self._device)
        self._at_X = torch.from_numpy(row_N).to(self._device)
        columns = torch.arange(self._prefixes.keys.shape[3])
        hidden_NC = columns >= torch.from_numpy(self._length_N)[:, None]
        self._hidden_NC = hidden_NC.to(self._device)

    def _attend(self, layer: int, q_NHE: Tensor) -> Tensor:
        """What each branch gathers, [N, H * E]."""
        N, H, E = q_NHE.shape
        K = self._weights.num_kv_heads
        q_NKGE = (q_NHE * E**-0.5).view(N, K, H // K, E)
        keys_own = self._own.keys[layer, :, :, : self._steps + 1]
        scores = [
            self._scores_of_prefix(layer, q_NKGE),
            q_NKGE @ keys_own.transpose(-1, -2),
        ]
        if self._beginning is not None:
            q_KNGE = q_NKGE.transpose(0, 1).reshape(K, -1, E)
            on_beginning = q_KNGE @ self._beginning.keys[layer].transpose(-1, -2)
            scores.append(on_beginning.view(K, N, H // K, -1).transpose(0, 1))
        weights = torch.cat(scores, dim=-1).softmax(dim=-1, dtype=torch.float32).to(q_NHE.dtype)
        parts = torch.split(weights, [part.shape[-1] for part in scores], dim=-1)
        out_NKGE = self._values_of_prefix(layer, parts[0])
        out_NKGE += parts[1] @ self._own.values[layer, :, :, : self._steps + 1]
        if self._beginning is not None:
            p_KNC = parts[2].transpose(0, 1).reshape(K, N * (H // K), -1)
            of_beginning = p_KNC @ self._beginning.values[layer]
            out_NKGE += of_beginning.view(K, N, H // K, E).transpose(0, 1)
        return out_NKGE.reshape(N, H * E)

    def _scores_of_prefix(self, layer: int, q_NKGE: Tensor) -> Tensor:
        grid = self._to_grid(q_NKGE)
        scores_BKXGC = grid @ self._prefixes.keys[layer].transpose(-1, -2)
        scores_NKGC = self._from_grid(scores_BKXGC, q_NKGE.shape[2])
        return scores_NKGC.masked_fill_(self._hidden_NC[:, None, None], float("-inf"))

    def _values_of_prefix(self, layer: int, p_NKGC: Tensor) -> Tensor:
        grid = self._to_grid(p_NKGC) @ self._prefixes.values[layer]
        return self._from_grid(grid, p_NKGC.shape[2])

    def _to_grid(self, rows_NKGZ: Tensor) -> Tensor:
        """[B, K, X * G, Z]: the branches of each prefix side by side, zeros where there is none."""
        _, K, G, Z = rows_NKGZ.shape
        B = self._prefixes.keys.shape[1]
        grid = rows_NKGZ.new_zeros((B, self._rows, K, G, Z))
        grid[self._at_B, self._at_X] = rows_NKGZ
        return grid.transpose(1, 2).reshape(B, K, self._rows * G, Z)

    def _from_grid(self, grid: Tensor, G: int) -> Tensor:
        """[N, K, G, Z]: the rows of the branches out of such a grid; a copy."""
        B, K, _, Z = grid.shape
        picked: Tensor = grid.view(B, K, self._rows, G, Z)[self._at_B, :, self._at_X]
        return picked


def _by_heads(kept: KeptTokens) -> _Stretch:
    """[L, K, C, E]"""
    return _Stretch(
        kept.keys.transpose(1, 2).contiguous(), kept.values.transpose(1, 2).contiguous()
    )


def _grid(prefixes: Sequence[KeptTokens], longest: int) -> _Stretch:
    """[L, B, K, C, E], zeros after the end of each prefix: masked columns must be finite."""
    L, _, K, E = prefixes[0].keys.shape
    zeros = prefixes[0].keys.new_zeros((L, len(prefixes), K, longest, E))
    grid = _Stretch(zeros, torch.zeros_like(zeros))
    for index, prefix in enumerate(prefixes):
        length = min(len(prefix), longest)
        grid.keys[:, index, :, :length] = prefix.keys[:, :length].transpose(1, 2)
        grid.values[:, index, :, :length] = prefix.values[:, :length].transpose(1, 2)
    return grid
