"""Running passes in packs, and keeping what later work can go on from.

Shape suffixes: R rows, A token ids of interest.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.batching import form_packs
from pipeline.engines.causal_lm import CausalLM
from pipeline.engines.memory import run_in_halves
from pipeline.engines.packed.model import KeptTokens, Tokens
from pipeline.engines.passes import Pass

_KEPT_BEGINNINGS = 16  # tools' examples; a run has a handful
_NO_ROWS = np.zeros(0, dtype=np.int64)


class PassRunner:
    """Passes of one model, in packs of at most `token_budget` tokens that share a beginning.

    Attributes:
        kept: keys and values of passes, by the keys they were run with.
    """

    def __init__(self, lm: CausalLM, token_budget: int) -> None:
        self._lm, self._token_budget = lm, token_budget
        self._beginnings: OrderedDict[bytes, KeptTokens] = OrderedDict()
        self._keeping = True
        self.kept: dict[Hashable, KeptTokens] = {}

    def run(
        self, passes: Sequence[Pass], keys: Sequence[Hashable | None]
    ) -> list[NDArray[np.float32] | None]:
        """log p [R, A] for each pass; None for one that does not fit into memory alone.

        What passes with a key leave is kept under it, unless memory runs out.
        """
        answers: list[NDArray[np.float32] | None] = [
            np.zeros(one.ids_RA.shape, dtype=np.float32) for one in passes
        ]
        self._keeping = True
        for members in by_beginning([one.beginning for one in passes]):
            # Apart: a kept text holds the whole pack it was part of.
            for keep in (True, False):
                busy = [i for i in members if len(passes[i].rows) and (keys[i] is not None) == keep]
                lengths = [len(passes[index].tokens) for index in busy]
                for pack in form_packs(lengths, self._token_budget, padded=not self._lm.keeps):
                    numbered = [(passes[busy[b]], keys[busy[b]]) for b in pack]
                    done = run_in_halves(numbered, self._run_pack, relieve=self.relieve)
                    for b, (_, answer) in zip(pack, done, strict=True):
                        answers[busy[b]] = answer
        return answers

    def beginning(self, tokens: Tokens) -> KeptTokens | None:
        """Keys and values of what several texts begin with; computed once."""
        if not len(tokens):
            return None
        key = tokens.tobytes()
        if key not in self._beginnings:
            [self._beginnings[key]] = self.left_by([tokens], None)
            if len(self._beginnings) > _KEPT_BEGINNINGS:
                self._beginnings.popitem(last=False)
        self._beginnings.move_to_end(key)
        return self._beginnings[key]

    def left_by(
        self, sequences: Sequence[Tokens], beginning: KeptTokens | None
    ) -> list[KeptTokens]:
        """Keys and values of sequences that go on after `beginning`."""
        left: dict[int, KeptTokens] = {}
        for pack in form_packs([len(tokens) for tokens in sequences], self._token_budget):
            tokens = [sequences[index] for index in pack]
            _, kept = self._lm.hidden_rows(tokens, [_NO_ROWS] * len(pack), beginning, keep=True)
            assert kept is not None
            left |= dict(zip(pack, kept, strict=True))
        return [left[index] for index in range(len(sequences))]

    def relieve(self, alone: bool) -> None:
        """Keep nothing more in this call; for a pass that is alone, forget what was kept."""
        self._keeping = False
        if alone:
            self.kept.clear()
            self._beginnings.clear()

    def _run_pack(self, pack: Sequence[tuple[Pass, Hashable | None]]) -> list[NDArray[np.float32]]:
        passes = [one for one, _ in pack]
        keep = self._keeping and pack[0][1] is not None
        h_RD, left = self._lm.hidden_rows(
            [one.tokens for one in passes],
            [one.rows for one in passes],
            self.beginning(passes[0].beginning),
            keep=keep,
        )
        logprobs_RA = self._lm.head.logprobs(h_RD, np.concatenate([one.ids_RA for one in passes]))
        if left is not None:
            self.kept |= {key: kept for (_, key), kept in zip(pack, left, strict=True)}
        ends = np.cumsum([len(one.rows) for one in passes])[:-1]
        return np.split(logprobs_RA, ends)


def by_beginning(beginnings: Sequence[Tokens]) -> list[list[int]]:
    """Indices of equal beginnings together, in order of first appearance."""
    groups: dict[bytes, list[int]] = defaultdict(list)
    for index, tokens in enumerate(beginnings):
        groups[tokens.tobytes()].append(index)
    return list(groups.values())
