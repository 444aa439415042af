"""S: many continuations of one document's prefix, decoded side by side.

The keys and values of [P(x), x] are computed and kept once for each document. Its samples are
rows of one forward pass: each sees the prefix up to its own position and its own tokens, so a
step reads the prefix once, however many samples there are.

Shape suffixes: B documents, R rows of each, T columns of the prefix, C columns in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.batching import form_batches
from pipeline.engines.causal_lm import CausalLM
from pipeline.engines.drawing import draw, uniform
from pipeline.engines.kv_cache import KVCache
from pipeline.engines.protocol import Sample, SampleRequest, SamplingParams

_MAX_ROWS = 64  # of one document at once: every row's tokens are columns for all of them
_DRAWN_AT_ONCE = 256  # float64 distributions: 256 * 50,400 * 8 bytes = 103 MB for GPT-J
_KEPT_BUDGETS = 4  # token budgets of keys and values, if no sample ended before the limit
_COMPACT_BELOW = 0.75  # share of rows still alive at which the others' columns are dropped


@dataclass(slots=True, kw_only=True)
class _Row:
    """One sample being decoded."""

    prefix_len: int
    open_ids: tuple[int, ...]
    seed: int
    fed: int = 0  # tokens after the prefix that have been through the model
    token_ids: list[int] = field(default_factory=list)
    done: bool = False
    ended: bool = False

    def next_input(self) -> int:
        return self.open_ids[self.fed] if self.fed < len(self.open_ids) else self.token_ids[-1]


def sample_requests(
    lm: CausalLM,
    requests: Sequence[SampleRequest],
    params: SamplingParams,
    *,
    bos_id: int,
    eos_id: int | None,
    token_budget: int,
) -> list[list[list[Sample]]]:
    """[request][K][m] samples. The end-of-text token ends a sample that is then not `ended`."""
    rows = [_rows_of(request) for request in requests]
    busy = [index for index, rows_Km in enumerate(rows) if any(rows_Km)]
    prefixes = [_prefix(requests[index], bos_id) for index in busy]
    for batch in form_batches([len(prefix) for prefix in prefixes], token_budget):
        cache = lm.prefill([prefixes[b] for b in batch])
        prefix_columns = len(prefixes[batch[0]])
        chunks = [
            (b, chunk)
            for b, which in enumerate(batch)
            for chunk in _chunks([row for rows_m in rows[busy[which]] for row in rows_m])
        ]
        widest = prefix_columns + max(len(c) for _, c in chunks) * params.max_new_tokens
        at_once = max(1, _KEPT_BUDGETS * token_budget // widest)
        for start in range(0, len(chunks), at_once):
            part = chunks[start : start + at_once]
            branches = cache.select(torch.tensor([b for b, _ in part], device=lm.device))
            _Branches(lm, branches, prefix_columns, [chunk for _, chunk in part]).run(
                params, eos_id
            )
    return [
        [[Sample(tuple(row.token_ids), row.ended) for row in rows_m] for rows_m in rows_Km]
        for rows_Km in rows
    ]


def _rows_of(request: SampleRequest) -> list[list[_Row]]:
    before = 1 + len(request.prompt_ids)
    return [
        [
            _Row(prefix_len=before + int(i), open_ids=request.open_ids, seed=int(seed))
            for seed in seeds_m
        ]
        for i, seeds_m in zip(request.positions, request.seeds_Km, strict=True)
    ]


def _prefix(request: SampleRequest, bos_id: int) -> NDArray[np.int32]:
    x_ids = request.x_ids[: int(request.positions.max())]
    return np.concatenate([[bos_id], request.prompt_ids, x_ids]).astype(np.int32)


def _chunks(rows: Sequence[_Row]) -> list[Sequence[_Row]]:
    return [rows[start : start + _MAX_ROWS] for start in range(0, len(rows), _MAX_ROWS)]


class _Branches:
    """Rows of B documents that grow by a token a step until all are done.

    The columns of the cache are T of the prefix and then, for each step since, one of every
    row. Slots of rows that are done stay as padding until it pays to drop them.
    """

    def __init__(
        self, lm: CausalLM, cache: KVCache, prefix_columns: int, rows: Sequence[Sequence[_Row]]
    ) -> None:
        self._lm, self._cache, self._T = lm, cache, prefix_columns
        self._R = max(map(len, rows))
        self._slots: list[list[_Row | None]] = [
            [*chunk, *([None] * (self._R - len(chunk)))] for chunk in rows
        ]
        # A slot without a row sees the first token: softmax needs something to see.
        seen_BR = [[1 if row is None else row.prefix_len for row in slots] for slots in self._slots]
        columns_T = torch.arange(prefix_columns, device=lm.device)
        self._visible_BRC = columns_T < torch.tensor(seen_BR, device=lm.device)[:, :, None]

    def run(self, params: SamplingParams, eos_id: int | None) -> None:
        while live := self._live():
            h_BRD = self._feed()
            self._lm.tokens_run += len(live)
            drawing = [(b, r, row) for b, r, row in live if row.fed >= len(row.open_ids)]
            for start in range(0, len(drawing), _DRAWN_AT_ONCE):
                bs, rs, rows = zip(*drawing[start : start + _DRAWN_AT_ONCE], strict=True)
                self._draw(rows, h_BRD[list(bs), list(rs)], params, eos_id)
            self._compact()

    def _live(self) -> list[tuple[int, int, _Row]]:
        return [
            (b, r, row)
            for b, slots in enumerate(self._slots)
            for r, row in enumerate(slots)
            if row is not None and not row.done
        ]

    def _feed(self) -> Tensor:
        """Run one token of every slot through the model: its hidden states [B, R, D]."""
        tokens_BR = np.zeros((len(self._slots), self._R), dtype=np.int64)
        places_BR = np.zeros_like(tokens_BR)
        for b, r, row in self._live():
            tokens_BR[b, r], places_BR[b, r] = row.next_input(), row.prefix_len + row.fed
            row.fed += 1
        own_BRR = torch.eye(self._R, dtype=torch.bool, device=self._lm.device)
        own_BRR = own_BRR.expand(len(self._slots), -1, -1)
        self._visible_BRC = torch.cat([self._visible_BRC, own_BRR], dim=2)
        return self._lm.extend(
            torch.from_numpy(tokens_BR).to(self._lm.device),
            torch.from_numpy(places_BR).to(self._lm.device),
            self._visible_BRC,
            self._cache,
        )

    def _draw(
        self, rows: Sequence[_Row], h_RD: Tensor, params: SamplingParams, eos_id: int | None
    ) -> None:
        uniforms = [uniform(row.seed, len(row.token_ids)) for row in rows]
        tokens_R = draw(
            self._lm.logits(h_RD), uniforms, temperature=params.temperature, top_p=params.top_p
        )
        for row, token in zip(rows, tokens_R.tolist(), strict=True):
            row.token_ids.append(token)
            row.ended = token in params.stop_ids
            row.done = row.ended or token == eos_id or len(row.token_ids) >= params.max_new_tokens

    def _compact(self) -> None:
        """Drop documents without live rows, and the columns of dead rows where it pays."""
        live: list[list[int]] = [[] for _ in self._slots]
        for b, r, _ in self._live():
            live[b].append(r)
        kept_B = [b for b, slots in enumerate(live) if slots]
        R = max(map(len, live))
        if not kept_B or (len(kept_B) == len(live) and R > _COMPACT_BELOW * self._R):
            return
        taken = np.array([live[b] + [0] * (R - len(live[b])) for b in kept_B])
        real = np.array([[r < len(live[b]) for r in range(R)] for b in kept_B])
        self._slots = [
            [self._slots[b][r] if is_real else None for r, is_real in zip(rs, reals, strict=True)]
            for b, rs, reals in zip(kept_B, taken.tolist(), real.tolist(), strict=True)
        ]
        self._take(
            torch.tensor(kept_B, device=self._lm.device),
            torch.from_numpy(taken).to(self._lm.device),
            torch.from_numpy(real).to(self._lm.device),
        )
        self._R = R

    def _take(self, kept_B: Tensor, taken_BR: Tensor, real_BR: Tensor) -> None:
        """Keep documents `kept_B`, of each the slots `taken_BR` and their columns."""
        B, R = taken_BR.shape
        steps = (self._visible_BRC.shape[2] - self._T) // self._R
        prefix_BT = torch.arange(self._T, device=kept_B.device).expand(B, -1)
        firsts = self._T + self._R * torch.arange(steps, device=kept_B.device)
        suffix_BS = (firsts[None, :, None] + taken_BR[:, None, :]).reshape(B, steps * R)
        columns_BC = torch.cat([prefix_BT, suffix_BS], dim=1)
        # A slot that only pads repeats another's columns: nobody may see them twice.
        seen_BC = torch.cat([torch.ones_like(prefix_BT), real_BR.repeat(1, steps)], dim=1).bool()
        visible_BRC = self._visible_BRC[kept_B[:, None], taken_BR]
        self._visible_BRC = (
            visible_BRC.gather(2, columns_BC[:, None, :].expand(-1, R, -1)) & seen_BC[:, None, :]
        )
        self._cache.take(kept_B, columns_BC)
