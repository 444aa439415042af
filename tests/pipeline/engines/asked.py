"""Requests of random tokens for the tiny checkpoints: a wrong row or token is far off."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import LossRequest, SampleRequest
from tests.pipeline.tiny_checkpoints import VOCABULARY

WIDTH = 5
# One token in nine ends a sample: lengths from 1 to the limit.
STOP_IDS = frozenset(range(2, VOCABULARY, 9))

Answer = TypeVar("Answer")


def every(answers: Sequence[Answer | None]) -> list[Answer]:
    """The answers, all of which are there."""
    found = [answer for answer in answers if answer is not None]
    assert len(found) == len(answers)
    return found


def ids(length: int, seed: int = 0) -> NDArray[np.int32]:
    """Random tokens, other ones for each length and seed; never the end of text, which is 0."""
    return np.random.default_rng((seed, length)).integers(1, VOCABULARY, length, dtype=np.int32)


def at(*positions: int) -> NDArray[np.int32]:
    return np.array(positions, dtype=np.int32)


def losses(z: int, n: int, *positions: int) -> LossRequest:
    return LossRequest(z_ids=ids(z, seed=1), x_ids=ids(n), positions=at(*positions))


def sampling(
    n: int, *positions: int, m: int = 2, prompt: int = 6, header_len: int = 0
) -> SampleRequest:
    seeds_Km = 1000 * n + np.arange(len(positions) * m, dtype=np.uint64).reshape(-1, m)
    return SampleRequest(
        prompt_ids=ids(prompt), x_ids=ids(n), positions=at(*positions), open_ids=(257,),
        seeds_Km=seeds_Km, header_len=header_len,
    )  # fmt: skip


LOSSES = [
    losses(0, 1, 0),  # nothing but the begin-of-text token before the only token
    losses(0, 25, 0, 3, 12),
    losses(9, 25, 24, 20, 22, 0, 20),  # past the end, unordered, one twice
    losses(9, 25, 7),  # the same z and x as above
    losses(4, 12, 6),
    losses(4, 12),
]
SAMPLES = [
    sampling(30, 0, 7, 29),
    sampling(5, 2, m=3, prompt=20),
    sampling(30),
    sampling(18, 4, 5, 6, 17, m=4),
]
