"""PackedTexts: texts that grow side by side, each behind a past of its own.

Keys and values lie in grids, one for each length a text may come to: a text that outgrows its
grid moves on to the next. All tokens of a pass are on one axis but for attention. There, texts
that got one token attend together over the slots of their grid, whose keys stay where they are;
texts that got several attend one by one.

Shape suffixes: N texts of a pass, T their tokens, L layers, S slots, C columns, K key heads, G
query heads of each, H = K * G, E head size, D hidden size.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pipeline.engines.packed.branches import Counter
from pipeline.engines.packed.model import Tokens
from pipeline.engines.packed.weights import Weights

_COLUMNS = 64  # of the smallest grid; each other has twice those of the one before


class _Grid:
    """Keys and values of texts that are about as long: each [L, S, K, C, E].

    Values of columns that are masked must be finite, as they are multiplied by 0. Of what a text
    leaves behind they are made zero.
    """

    def __init__(self, weights: Weights, columns: int) -> None:
        shape = (len(weights.layers), 0, weights.num_kv_heads, columns, weights.head_size)
        self.columns = columns
        self.keys = weights.embedding.new_zeros(shape)
        self.values = weights.embedding.new_zeros(shape)
        self.used: set[int] = set()

    def take(self) -> int:
        """A slot, the first that is free: only those up to the last in use take part."""
        slot = next(slot for slot in itertools.count() if slot not in self.used)
        if slot >= self.keys.shape[1]:
            self.keys = _doubled(self.keys)  # one after the other: only one is there twice
        if slot >= self.values.shape[1]:
            self.values = _doubled(self.values)
        self.clear(slot)
        self.used.add(slot)
        return slot

    def clear(self, slot: int, start: int = 0) -> None:
        """Forget what the columns from `start` on held, which may be no numbers."""
        self.values[:, slot, :, start:] = 0


def _doubled(old: Tensor) -> Tensor:
    L, S, K, C, E = old.shape
    new = old.new_zeros((L, max(1, 2 * S), K, C, E))
    new[:, :S] = old
    return new


@dataclass(slots=True, eq=False)
class _Text:
    grid: _Grid | None = None
    slot: int = 0
    length: int = 0


class PackedTexts:
    """See pipeline.engines.causal_lm.GrowingTexts."""

    def __init__(self, counter: Counter, weights: Weights) -> None:
        self._counter, self._weights = counter, weights
        self._device = weights.embedding.device
        self._grids: dict[int, _Grid] = {}
        self._texts: dict[int, _Text] = {}
        self._numbers = itertools.count()

    def begin(self) -> int:
        """The number of a new, empty text."""
        number = next(self._numbers)
        self._texts[number] = _Text()
        return number

    @torch.inference_mode()
    def cut(self, number: int, length: int) -> None:
        """Keep the first `length` tokens of a text."""
        text = self._texts[number]
        assert length <= text.length
        text.length = length
        if text.grid is not None:
            text.grid.clear(text.slot, length)

    def forget(self, number: int) -> None:
        """Give up a text."""
        self._leave(self._texts.pop(number))

    @torch.inference_mode()
    def extend(self, numbers: Sequence[int], tokens: Sequence[Tokens]) -> Tensor:
        """The hidden states [N, D] after the last of the tokens each text is given.

        The last norm is not applied. Where it raises, all texts are as they were.
        """
        w, texts = self._weights, [self._texts[number] for number in numbers]
        for text, added in zip(texts, tokens, strict=True):
            self._make_room(text, text.length + len(added))
        counts = [len(added) for added in tokens]
        ends = np.cumsum(counts, dtype=np.int64)
        starts = ends - counts
        parts = self._parts(texts, starts, counts)
        places = [np.arange(t.length, t.length + n) for t, n in zip(texts, counts, strict=True)]
        places_T = self._on_device(np.concatenate(places))
        cos_sin = w.turns(places_T)
        x_TD = w.embed(self._on_device(np.concatenate(tokens).astype(np.int64)), places_T)
        for index, layer in enumerate(w.layers):
            normed_TD = layer.norm(x_TD)
            q_THE, k_TKE, v_TKE = w.split(layer.qkv(normed_TD), cos_sin)
            attended_THE = torch.empty_like(q_THE, memory_format=torch.contiguous_format)
            for part in parts:
                part.keep(index, k_TKE, v_TKE)
                part.attend(index, q_THE, attended_THE)
            x_TD = layer.after_attention(x_TD, normed_TD, attended_THE.view(len(x_TD), -1))
        for text, count in zip(texts, counts, strict=True):
            text.length += count
        self._counter.tokens_run += len(x_TD)
        return x_TD[self._on_device(ends - 1)]

    def _make_room(self, text: _Text, length: int) -> None:
        """Move a text to a grid it fits into, where it does not any more."""
        if text.grid is not None and length <= text.grid.columns:
            return
        columns = _COLUMNS
        while columns < length:
            columns *= 2
        if columns not in self._grids:
            self._grids[columns] = _Grid(self._weights, columns)
        grid = self._grids[columns]
        slot = grid.take()
        if text.grid is not None:
            for new, old in ((grid.keys, text.grid.keys), (grid.values, text.grid.values)):
                new[:, slot, :, : text.length] = old[:, text.slot, :, : text.length]
        self._leave(text)
        text.grid, text.slot = grid, slot

    def _leave(self, text: _Text) -> None:
        if text.grid is not None:
            text.grid.used.remove(text.slot)
            if not text.grid.used:
                del self._grids[text.grid.columns]

    def _parts(
        self, texts: Sequence[_Text], starts: NDArray[np.int64], counts: Sequence[int]
    ) -> list["_Part"]:
        """The texts of a pass by their grids."""
        by_grid: dict[int, list[tuple[_Text, int, int]]] = {}
        for text, start, count in zip(texts, starts.tolist(), counts, strict=True):
            assert text.grid is not None and count > 0
            by_grid.setdefault(text.grid.columns, []).append((text, start, count))
        return [
            _Part(self._grids[columns], members, self._device)
            for columns, members in by_grid.items()
        ]

    def _on_device(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


class _Part:
    """The texts of a pass that are in one grid, each with its first row and how many it has."""

    def __init__(
        self, grid: _Grid, members: Sequence[tuple[_Text, int, int]], device: torch.device
    ) -> None:
        self._grid = grid
        rows = np.concatenate([np.arange(start, start + n) for _, start, n in members])
        slots = np.repeat([text.slot for text, _, _ in members], [n for _, _, n in members])
        places = np.concatenate([np.arange(t.length, t.length + n) for t, _, n in members])
        self._rows_T = torch.from_numpy(rows).to(device)
        self._slots_T = torch.from_numpy(slots).to(device)
        self._places_T = torch.from_numpy(places).to(device)
        singles = [(text, start) for text, start, n in members if n == 1]
        self._several = [_Several(*member, device) for member in members if member[2] > 1]
        self._has_singles = bool(singles)
        if singles:
            self._rows_N = torch.tensor([start for _, start in singles], device=device)
            self._slots_N = torch.tensor([text.slot for text, _ in singles], device=device)
            self._num_slots = max(text.slot for text, _ in singles) + 1
            self._num_columns = max(text.length for text, _ in singles) + 1
            # A slot nobody is in sees one column: with none it would be NaN.
            last_S = np.zeros(self._num_slots, dtype=np.int64)
            last_S[[text.slot for text, _ in singles]] = [text.length for text, _ in singles]
            hidden_SC = np.arange(self._num_columns) > last_S[:, None]
            self._hidden_SC = torch.from_numpy(hidden_SC).to(device)

    def keep(self, layer: int, k_TKE: Tensor, v_TKE: Tensor) -> None:
        """Write the keys and values of the tokens of these texts."""
        self._grid.keys[layer][self._slots_T, :, self._places_T] = k_TKE[self._rows_T]
        self._grid.values[layer][self._slots_T, :, self._places_T] = v_TKE[self._rows_T]

    def attend(self, layer: int, q_THE: Tensor, attended_THE: Tensor) -> None:
        """Write what each token of these texts gathers."""
        keys_SKCE, values_SKCE = self._grid.keys[layer], self._grid.values[layer]
        for several in self._several:
            several.attend(q_THE, keys_SKCE, values_SKCE, attended_THE)
        if self._has_singles:
            shown = slice(self._num_slots), slice(None), slice(self._num_columns)
            attended_THE[self._rows_N] = self._of_singles(
                q_THE[self._rows_N], keys_SKCE[shown], values_SKCE[shown]
            )

    def _of_singles(self, q_NHE: Tensor, keys_SKCE: Tensor, values_SKCE: Tensor) -> Tensor:
        """[N, H, E]"""
        (S, K), (_, H, E) = keys_SKCE.shape[:2], q_NHE.shape
        q_SHE = q_NHE.new_zeros((S, H, E))
        q_SHE[self._slots_N] = q_NHE * E**-0.5
        scores_SKGC = q_SHE.view(S, K, H // K, E) @ keys_SKCE.transpose(-1, -2)
        scores_SKGC.masked_fill_(self._hidden_SC[:, None, None], float("-inf"))
        p_SKGC = scores_SKGC.softmax(dim=-1, dtype=torch.float32).to(q_NHE.dtype)
        return (p_SKGC @ values_SKCE).view(S, H, E)[self._slots_N]


class _Several:
    """A text that got several tokens at once."""

    def __init__(self, text: _Text, start: int, count: int, device: torch.device) -> None:
        self._slot, self._rows = text.slot, slice(start, start + count)
        self._end = text.length + count
        columns = torch.arange(self._end, device=device)
        # None: nothing before them.
        self._mask = columns <= columns[text.length :, None] if text.length else None

    def attend(
        self, q_THE: Tensor, keys_SKCE: Tensor, values_SKCE: Tensor, attended_THE: Tensor
    ) -> None:
        """Write what each of its tokens gathers."""
        keys_KCE = keys_SKCE[self._slot, :, : self._end]
        attended_THE[self._rows] = functional.scaled_dot_product_attention(
            q_THE[self._rows].transpose(0, 1)[None],
            keys_KCE[None],
            values_SKCE[self._slot, :, : self._end][None],
            attn_mask=self._mask,
            is_causal=self._mask is None,
            enable_gqa=q_THE.shape[1] != len(keys_KCE),
        )[0].transpose(0, 1)
