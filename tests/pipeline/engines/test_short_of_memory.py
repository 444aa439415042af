"""TorchEngine on a device with little room: numbers stay right, only what cannot fit is None."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.engines.protocol import SamplingParams
from pipeline.engines.torch_engine import TorchEngine
from tests.pipeline.engines.asked import LOSSES, STOP_IDS, WIDTH, every, losses
from tests.pipeline.engines.test_reuse import TEXTS

PARAMS = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=10)
POSITIONS = [position for position, _ in TEXTS]
SAMPLES = [sample for _, sample in TEXTS]


class SmallDevice:
    """The model of an engine, out of memory where a pass or branches need more than `room` tokens.

    A root of branches needs ten beside those of its prefix.
    """

    def __init__(self, lm: Any, room: int) -> None:
        self._lm, self._room = lm, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def _needs(self, tokens: int) -> None:
        if tokens > self._room:
            raise torch.OutOfMemoryError(f"{tokens} tokens")

    def hidden_rows(
        self, sequences: Sequence[Any], rows: Any, beginning: Any = None, *, keep: bool = False
    ) -> Any:
        self._needs(sum(map(len, sequences)))
        return self._lm.hidden_rows(sequences, rows, beginning, keep=keep)

    def decoder(self, prefixes: Sequence[Any], roots: Sequence[Any]) -> Any:
        self._needs(sum(len(prefix.tokens) for prefix in prefixes) + 10 * len(roots))
        return self._lm.decoder(prefixes, roots)


def small(engine: TorchEngine, room: int) -> TorchEngine:
    engine._lm = engine._runner._lm = engine._sampler._lm = SmallDevice(engine._lm, room)
    engine._sampler._trees._lm = engine._lm
    return engine


@pytest.mark.parametrize(("architecture", "room"), [("gptj", 50), ("gpt_neox", 75)])
def test_what_fits_in_parts_is_answered_in_parts(
    checkpoints: dict[str, Path], architecture: str, room: int
) -> None:
    # The longest text has 32 tokens after the shared ones, 53 with them, and three positions.
    path = str(checkpoints[architecture])
    free, tight = TorchEngine.load(path), small(TorchEngine.load(path), room)
    for ours, theirs in zip(
        every(tight.position_logprobs(POSITIONS, [3])),
        every(free.position_logprobs(POSITIONS, [3])),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    for ours, theirs in zip(
        every(tight.window_logprobs(LOSSES, WIDTH)),
        every(free.window_logprobs(LOSSES, WIDTH)),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert every(tight.sample(SAMPLES, PARAMS)) == every(free.sample(SAMPLES, PARAMS))


def test_only_what_does_not_fit_alone_stays_unanswered(checkpoints: dict[str, Path]) -> None:
    engine = small(TorchEngine.load(str(checkpoints["gptj"])), 30)
    requests = [losses(9, 25, 3), losses(9, 70, 60), losses(4, 12, 6)]
    answers = engine.window_logprobs(requests, WIDTH)
    assert [answer is not None for answer in answers] == [True, False, True]
    samples = engine.sample(SAMPLES, PARAMS)
    assert [answer is not None for answer in samples] == [False, True, False]


def test_no_more_is_held_than_is_kept(checkpoints: dict[str, Path]) -> None:
    # 33, 15 and 28 tokens after the header: the first two fit into 60, and nothing else is held.
    engine = TorchEngine.load(str(checkpoints["gptj"]), kept_tokens=60)
    every(engine.position_logprobs(POSITIONS, [3]))
    storages = {
        kept.keys.untyped_storage().data_ptr(): kept for kept in engine._runner.kept.values()
    }
    bytes_of_a_token = 2 * 32 * 4  # layers, hidden size, float32
    held = sum(kept.keys.untyped_storage().nbytes() for kept in storages.values())
    assert held == (32 + 14) * bytes_of_a_token
    every(engine.sample(SAMPLES, PARAMS))
    assert not engine._runner.kept
