"""PlainTexts: texts that grow through a model's own forward, one by one.

Shape suffixes: N texts, D hidden size.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from pipeline.engines.packed.model import Tokens

if TYPE_CHECKING:
    from pipeline.engines.plain_lm import PlainLM


@dataclass(slots=True, eq=False)
class _Text:
    cache: DynamicCache = field(default_factory=DynamicCache)
    length: int = 0


class PlainTexts:
    """See pipeline.engines.causal_lm.GrowingTexts."""

    def __init__(self, lm: "PlainLM") -> None:
        self._lm = lm
        self._texts: dict[int, _Text] = {}
        self._numbers = itertools.count()

    def begin(self) -> int:
        """The number of a new, empty text."""
        number = next(self._numbers)
        self._texts[number] = _Text()
        return number

    def cut(self, number: int, length: int) -> None:
        """Keep the first `length` tokens of a text."""
        assert length <= self._texts[number].length
        self._texts[number].length = length

    def forget(self, number: int) -> None:
        """Give up a text."""
        del self._texts[number]

    @torch.inference_mode()
    def extend(self, numbers: Sequence[int], tokens: Sequence[Tokens]) -> Tensor:
        """The hidden states [N, D] after the last of the tokens each text is given.

        Where it raises, all texts are as they were.
        """
        texts = [self._texts[number] for number in numbers]
        last = [self._run(text, added) for text, added in zip(texts, tokens, strict=True)]
        for text, added in zip(texts, tokens, strict=True):
            text.length += len(added)
            self._lm.tokens_run += len(added)
        return torch.stack(last)

    def _run(self, text: _Text, added: Tokens) -> Tensor:
        layers: list[Any] = text.cache.layers
        for layer in layers:  # it was cut back, or a pass with it was broken off
            surplus = layer.get_seq_length() - text.length
            if surplus:
                layer.crop(-surplus)
        h_1TD: Tensor = self._lm.body(
            input_ids=torch.from_numpy(added.astype(np.int64))[None].to(self._lm.device),
            past_key_values=text.cache,
            use_cache=True,
        )[0]
        return h_1TD[0, -1]
