"""What the pipeline asks of a language model: arrays in, raw log-probabilities out.

Engines know tokens, not text, thresholds or tools. Every sequence an engine sees begins with
`bos_id` where the model has one; the engine prepends it. Log-probabilities are natural
logarithms in float32. Positions are 0-based: a call at position i stands before x_ids[i].

Shape suffixes: n tokens of the document, A token ids asked for, K positions, m samples,
Q scored positions, W window width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionRequest:
    """P: one pass over [P(x), x] (section 2, Sampling). `prompt_ids` ends with "Output:".

    The first `header_len` of `prompt_ids` are the tool's examples, the same for every document:
    an engine may keep what it computed for them. Probabilities up to `floor` do not matter: an
    engine that cannot tell them exactly answers -inf.
    """

    prompt_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]
    header_len: int = 0
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRequest:
    """S: m continuations of [P(x), x_{1:i-1}, " ["] at each of K positions.

    `open_ids` are the tokens of " [". `seeds_Km` holds one seed for each sample: the same seed
    and the same logits give the same sample whatever else is in the batch. Prompt, x and
    `header_len` are those of the PositionRequest before it, so that an engine can go on from what
    it kept. A sample whose bytes so far `may_be_call` denies is of no use to anyone: an engine
    may end it there, not `ended`.
    """

    prompt_ids: NDArray[np.int32]
    x_ids: NDArray[np.int32]
    positions: NDArray[np.int32]
    open_ids: tuple[int, ...]
    seeds_Km: NDArray[np.uint64]
    header_len: int = 0
    may_be_call: Callable[[bytes], bool] | None = None


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
    """What the model did so far, where several units are at work for the thread that asks.

    Tokens through its body by kind, those of padding among them again, and rows through its LM
    head. Tokens whose keys and values were kept from an earlier pass do not count.
    """

    position_tokens: int = 0
    sample_tokens: int = 0
    loss_tokens: int = 0
    padding_tokens: int = 0
    head_rows: int = 0

    def plus(self, other: "EngineUsage") -> "EngineUsage":
        return EngineUsage(*(a + b for a, b in zip(self, other, strict=True)))

    def since(self, before: "EngineUsage") -> "EngineUsage":
        """What came after an earlier reading."""
        return EngineUsage(*(a - b for a, b in zip(self, before, strict=True)))


class LMEngine(Protocol):
    """A causal language model with its weights loaded.

    None in the place of an answer says that the request does not fit into memory even alone.
    """

    info: EngineInfo
    kept_tokens: int  # of P, whose keys and values the next S finds again; 0: none
    concurrency: int  # units that gain by being asked about at once, from threads of their own

    def position_logprobs(
        self, requests: Sequence[PositionRequest], token_ids: Sequence[int]
    ) -> Sequence[NDArray[np.float32] | None]:
        """For each request [n, A]: row i is log p(token | P(x), x[:i])."""
        ...

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> Sequence[list[list[Sample]] | None]:
        """For each request K lists of m samples."""
        ...

    def window_logprobs(
        self, requests: Sequence[LossRequest], width: int
    ) -> Sequence[NDArray[np.float32] | None]:
        """For each request [Q, W]: log p(x[i + t] | z, x[: i + t]), NaN past the end of x."""
        ...

    def usage(self) -> EngineUsage: ...

    def load_weights(self, path: str, revision: str | None = None) -> None:
        """Go on with other weights of the same architecture and tokenizer; `info` follows.

        Raises:
            ConfigError: the checkpoint is missing, torn, or of another shape.
        """
        ...
