"""What the pipeline asks of a language model: arrays in, raw log-probabilities out.

Engines know tokens, not text, thresholds or tools. Every sequence an engine sees begins with
`bos_id` where the model has one; the engine prepends it. Log-probabilities are natural
logarithms in float32. Positions are 0-based: a call at position i stands before x_ids[i].

Shape suffixes: n tokens of the document, A token ids asked for, K positions, m samples,
Q scored positions, W window width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRequest:
    """P: one pass over [P(x), x] (section 2, Sampling). `prompt_ids` ends with "Output:"."""

    prompt_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """S: m continuations of [P(x), x_{1:i-1}, " ["] at each of K positions.

    `open_ids` are the tokens of " [". `seeds_Km` holds one seed for each sample: the same seed
    and the same logits give the same sample whatever else is in the batch.
    """

    prompt_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]
    positions: NDArray[np.int32]
    open_ids: tuple[int, ...]
    seeds_Km: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRequest:
    """L: log p(x[i + t] | z, x[: i + t]) for every i in `positions`; `z_ids` may be empty."""

    z_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]
    positions: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How S decodes. `temperature` 0 is greedy. A sample ends with the first of `stop_ids`."""

    stop_ids: frozenset[int]
    max_new_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One continuation: tokens after " [", the stop token included when `ended`."""

    token_ids: tuple[int, ...]
    ended: bool


class EngineInfo(NamedTuple):
    """What answers: enters the run's fingerprint."""

    name: str
    version: str
    device: str  # "cpu" or "cuda"
    dtype: str
    max_len: int
    vocab_size: int
    weights_id: str


class EngineUsage(NamedTuple):
    """Tokens run through the model's body so far, and rows through its LM head, by kind."""

    position_tokens: int
    sample_tokens: int
    loss_tokens: int
    head_rows: int


class LMEngine(Protocol):
    """A causal language model with its weights loaded."""

    info: EngineInfo

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> list[NDArray[np.float32]]:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        ...

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]]]:
        """For each request K lists of m samples."""
        ...

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> list[NDArray[np.float32]]:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x."""
        ...

    def usage(self) -> EngineUsage: ...
