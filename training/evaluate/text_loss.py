"""-log p of plain text where " [" has probability 0, in batches.

A document's tokens are cut into windows of the model's context, without overlap. Each begins with
the begin-of-text token, and every token is predicted once.

Shape suffixes: n tokens of a window, R rows, D hidden size, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engines.batching import form_packs
from pipeline.engines.causal_lm import CausalLM
from pipeline.engines.memory import run_in_halves
from pipeline.tokens import Ids
from tools.base import ConfigError

_ROWS_AT_ONCE = 1024  # of logits: 1024 * 50,400 * 4 bytes = 206 MB for GPT-J

OnProgress = Callable[[int, int], None]  # tokens that are done, and of how many


@dataclass(slots=True)
class TextLoss:
    """What a model makes of a document: the sum of -log p over the tokens that count."""

    nats: float = 0.0
    num_tokens: int = 0
    num_left_out: int = 0  # " [" in the text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    loss: TextLoss  # of the document it is part of
    ids_n: Ids


class TextLosses:
    """A model with " [" disabled."""

    def __init__(self, lm: CausalLM, *, bos_id: int, open_id: int, max_len: int) -> None:
        self._lm, self._bos_id, self._open_id, self._max_len = lm, bos_id, open_id, max_len

    @torch.inference_mode()
    def of(
        self, documents: Sequence[Ids], token_budget: int, on_progress: OnProgress
    ) -> list[TextLoss]:
        """For each document, from its canonical tokens.

        Raises:
            ConfigError: logits are no numbers, or a window does not fit into memory alone.
        """
        losses = [TextLoss() for _ in documents]
        windows = list(self._windows(documents, losses))
        lengths = [len(window.ids_n) for window in windows]
        done, total = 0, sum(lengths)
        for pack in form_packs(lengths, token_budget, padded=not self._lm.keeps):
            members = [windows[index] for index in pack]
            for window, nats in run_in_halves(members, self._run, relieve=lambda alone: None):
                if nats is None:
                    raise ConfigError(
                        f"out of memory: no room for a window of {len(window.ids_n)} tokens"
                    )
                num_open = int((window.ids_n == self._open_id).sum())
                window.loss.nats += nats
                window.loss.num_tokens += len(window.ids_n) - num_open
                window.loss.num_left_out += num_open
                done += len(window.ids_n)
            on_progress(done, total)
        return losses

    def _windows(self, documents: Sequence[Ids], losses: Sequence[TextLoss]) -> Iterator[_Window]:
        for ids, loss in zip(documents, losses, strict=True):
            for start in range(0, len(ids), self._max_len):
                yield _Window(loss=loss, ids_n=ids[start : start + self._max_len])

    def _run(self, windows: Sequence[_Window]) -> list[float]:
        """The sum of each window."""
        before = [np.concatenate(([self._bos_id], w.ids_n[:-1])).astype(np.int32) for w in windows]
        rows = [np.flatnonzero(window.ids_n != self._open_id) for window in windows]
        h_RD, _ = self._lm.hidden_rows(before, rows)
        targets = np.concatenate([w.ids_n[r] for w, r in zip(windows, rows, strict=True)])
        targets_R = torch.from_numpy(targets.astype(np.int64)).to(h_RD.device)
        nats_R = np.zeros(len(targets))
        for start in range(0, len(targets), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            logits_RV = self._lm.head.numbers(h_RD[some])
            nats_R[some] = nats_without(self._open_id, logits_RV, targets_R[some]).cpu().numpy()
        ends = np.cumsum([len(r) for r in rows])[:-1]
        return [float(part.sum()) for part in np.split(nats_R, ends)]


def nats_without(token_id: int, logits_RV: Tensor, targets_R: Tensor) -> Tensor:
    """-log p of the targets [R] where a token has probability 0, and all others its share.

    float32, in nats; infinite for the token itself. The logits are changed.
    """
    # Not log p - log(1 - p(" [")): where a call is almost certain, float32 cannot tell 1 - p.
    logits_RV[:, token_id] = -torch.inf
    return F.cross_entropy(logits_RV, targets_R, reduction="none")
