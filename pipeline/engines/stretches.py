"""Continuous batching: which tokens of which stretches a pass runs, and what is then chosen.

Shape suffixes: N texts, D hidden size, R rows.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.engines.causal_lm import CausalLM
from pipeline.engines.choosing import choose
from pipeline.engines.generation import Choosing, Step
from pipeline.engines.head import are_numbers, no_numbers
from pipeline.engines.memory import run_in_halves
from pipeline.engines.packed.model import Tokens
from tools.base import ConfigError

_CHOSEN_AT_ONCE = 256  # logits and probabilities: 2 * 256 * 50,400 * 4 bytes = 103 MB for GPT-J


def _no_tokens() -> Tokens:
    return np.zeros(0, dtype=np.int32)


@dataclass(slots=True, eq=False)
class KeptText:
    """What is kept of a text: the tokens that were run, and the hidden state after the last."""

    number: int  # in the store of texts
    tokens: Tokens = field(default_factory=_no_tokens)
    last_D: Tensor | None = None


@dataclass(slots=True, eq=False)
class Stretch:
    """A stretch of a text after `ids`: tokens that wait to be run, then one at a time."""

    text: KeptText
    ids: NDArray[np.int32]
    choosing: Choosing
    entered: bool = False  # whether it is known which of its tokens are kept
    waiting: Tokens = field(default_factory=_no_tokens)
    chosen: int = 0

    @property
    def place(self) -> int:
        """Of the next token, the begin-of-text token not counted."""
        return len(self.ids) + self.chosen

    def take(self, token_id: int) -> bool:
        """Go on with a token; whether it was the last."""
        self.waiting = np.array([token_id], dtype=np.int32)
        self.chosen += 1
        return token_id in self.choosing.stop_ids or self.chosen >= self.choosing.max_new_tokens


def form_pass(stretches: Iterable[Stretch], token_budget: int) -> list[tuple[Stretch, int]]:
    """Stretches, and how many of their waiting tokens are run: at most `token_budget` in all.

    First those that wait for one token, then the longer ones in order of arrival, the last of
    them perhaps in part.
    """
    parts, room = [], token_budget
    for stretch in sorted(stretches, key=lambda one: len(one.waiting) > 1):
        count = min(len(stretch.waiting), room)
        if count or not len(stretch.waiting):
            parts.append((stretch, count))
            room -= count
    return parts


class Stretches:
    """Runs passes over stretches of one model's texts.

    One thing at a time; only `begin` may be called while another is at work.

    Attributes:
        reused_tokens, decoded_tokens: see pipeline.engines.generation.GenerationUsage.
    """

    def __init__(self, lm: CausalLM, bos_id: int) -> None:
        self._lm, self._bos_id = lm, bos_id
        self._texts = lm.texts()
        self.reused_tokens = 0
        self.decoded_tokens = 0

    def begin(self) -> KeptText:
        """An empty text."""
        return KeptText(self._texts.begin())

    def forget(self, text: KeptText) -> None:
        """Give up what is kept of a text."""
        self._texts.forget(text.number)

    def next_pass(
        self, stretches: Sequence[Stretch], token_budget: int
    ) -> list[tuple[Stretch, int]]:
        """What `run` is given next: those of `stretches` that take part, see `form_pass`."""
        for stretch in stretches:
            if not stretch.entered:
                self._enter(stretch)
        return form_pass(stretches, token_budget)

    def _enter(self, stretch: Stretch) -> None:
        """Keep of its text what `ids` begins with."""
        text = stretch.text
        whole = np.concatenate([[self._bos_id], stretch.ids]).astype(np.int32)
        reused = _common(text.tokens, whole)
        if reused == len(whole) and (reused < len(text.tokens) or text.last_D is None):
            reused -= 1  # the hidden state after its last token is not kept
        if reused < len(text.tokens):
            self._cut(text, reused)
        self.reused_tokens += reused
        stretch.waiting, stretch.entered = whole[reused:], True

    @torch.inference_mode()
    def run(self, parts: Sequence[tuple[Stretch, int]]) -> list[Step | ConfigError | None]:
        """What each stretch of a pass goes on with; None where more of its tokens wait.

        A text that does not fit into memory, or whose logits are no numbers, is answered with
        the error.
        """
        too_long = self._extend([(one, one.waiting[:count]) for one, count in parts if count])
        for stretch, count in parts:
            stretch.waiting = stretch.waiting[count:]
        ready = [one for one, _ in parts if not len(one.waiting) and one.text not in too_long]
        steps: dict[Stretch, Step | ConfigError] = {}
        for start in range(0, len(ready), _CHOSEN_AT_ONCE):
            some = ready[start : start + _CHOSEN_AT_ONCE]
            steps |= zip(some, self._choose(some), strict=True)
        self.decoded_tokens += sum(isinstance(step, Step) for step in steps.values())
        return [too_long.get(one.text) or steps.get(one) for one, _ in parts]

    def _extend(self, added: Sequence[tuple[Stretch, Tokens]]) -> dict[KeptText, ConfigError]:
        """Run tokens through the body; errors for the texts for which memory does not suffice."""
        if not added:
            return {}
        done = run_in_halves(added, self._run, relieve=lambda _: None)
        return {
            stretch.text: ConfigError(
                f"out of memory: no room for {len(tokens)} more tokens of a text of "
                f"{len(stretch.text.tokens)}; lower token_budget or kept_tokens of the engine"
            )
            for (stretch, tokens), last_D in done
            if last_D is None
        }

    def _run(self, added: Sequence[tuple[Stretch, Tokens]]) -> list[Tensor]:
        numbers = [stretch.text.number for stretch, _ in added]
        last_ND = self._texts.extend(numbers, [tokens for _, tokens in added])
        for (stretch, tokens), last_D in zip(added, last_ND, strict=True):
            stretch.text.tokens = np.concatenate([stretch.text.tokens, tokens])
            stretch.text.last_D = last_D
        return list(last_ND)

    def _cut(self, text: KeptText, length: int) -> None:
        self._texts.cut(text.number, length)
        text.tokens, text.last_D = text.tokens[:length], None

    def _choose(self, stretches: Sequence[Stretch]) -> list[Step | ConfigError]:
        rows = [one.text.last_D for one in stretches]
        h_RD = torch.stack([row for row in rows if row is not None])
        logits_RV = self._lm.head.logits(h_RD)
        sound = are_numbers(logits_RV)
        ready = list(itertools.compress(stretches, sound))
        chosen = iter(
            choose(
                logits_RV if all(sound) else logits_RV[sound],
                [one.choosing for one in ready],
                [one.place for one in ready],
            )
        )
        return [next(chosen) if is_sound else no_numbers(h_RD.dtype) for is_sound in sound]


def _common(kept: Tokens, whole: Tokens) -> int:
    """How many tokens both begin with."""
    length = min(len(kept), len(whole))
    different = np.flatnonzero(kept[:length] != whole[:length])
    return int(different[0]) if len(different) else length
