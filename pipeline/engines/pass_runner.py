"""Running passes in packs, and keeping what later work can go on from.

Shape suffixes: R rows, A token ids of interest.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.batching import form_packs
from pipeline.engines.causal_lm import CausalLM
from pipeline.engines.memory import run_in_halves
from pipeline.engines.packed.model import KeptTokens, Tokens
from pipeline.engines.passes import Pass

_KEPT_BEGINNINGS = 16  # tools' examples; a run has a handful
_NO_ROWS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a pass gave: log-probabilities [R, A], and its keys and values where asked for."""

    logprobs_RA: NDArray[np.float32]
    kept: KeptTokens | None


class PassRunner:
    """Passes of one model, in packs of at most `token_budget` tokens that share a beginning."""

    def __init__(self, lm: CausalLM, token_budget: int) -> None:
        self._lm, self._token_budget = lm, token_budget
        self._beginnings: OrderedDict[bytes, KeptTokens] = OrderedDict()

    def run(self, passes: Sequence[Pass], keep: Sequence[bool]) -> list[Answer | None]:
        """An answer for each pass; None for one that does not fit into memory alone."""
        answers: list[Answer | None] = [
            Answer(np.zeros(one.ids_RA.shape, dtype=np.float32), None) for one in passes
        ]
        for members in by_beginning([one.beginning for one in passes]):
            busy = [index for index in members if len(passes[index].rows)]
            lengths = [len(passes[index].tokens) for index in busy]
            for pack in form_packs(lengths, self._token_budget, padded=not self._lm.keeps):
                numbered = [(busy[b], passes[busy[b]]) for b in pack]
                kept = any(keep[index] for index, _ in numbered)
                run = partial(self._run_pack, keep=kept)
                for (index, _), answer in run_in_halves(numbered, run):
                    answers[index] = answer
        return answers

    def beginning(self, tokens: Tokens) -> KeptTokens | None:
        """Keys and values of what several texts begin with; computed once."""
        if not len(tokens):
            return None
        key = tokens.tobytes()
        if key not in self._beginnings:
            _, kept = self._lm.hidden_rows([tokens], [_NO_ROWS], keep=True)
            assert kept is not None
            self._beginnings[key] = kept[0]
            if len(self._beginnings) > _KEPT_BEGINNINGS:
                self._beginnings.popitem(last=False)
        self._beginnings.move_to_end(key)
        return self._beginnings[key]

    def _run_pack(self, numbered: Sequence[tuple[int, Pass]], *, keep: bool) -> list[Answer]:
        pack = [one for _, one in numbered]
        h_RD, kept = self._lm.hidden_rows(
            [one.tokens for one in pack],
            [one.rows for one in pack],
            self.beginning(pack[0].beginning),
            keep=keep,
        )
        logprobs_RA = self._lm.head.logprobs(h_RD, np.concatenate([one.ids_RA for one in pack]))
        ends = np.cumsum([len(one.rows) for one in pack])[:-1]
        left = [None] * len(pack) if kept is None else kept
        return [
            Answer(part_RA, of_pass)
            for part_RA, of_pass in zip(np.split(logprobs_RA, ends), left, strict=True)
        ]


def by_beginning(beginnings: Sequence[Tokens]) -> list[list[int]]:
    """Indices of equal beginnings together, in order of first appearance."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for index, tokens in enumerate(beginnings):
        groups[tokens.tobytes()].append(index)
    return list(groups.values())
