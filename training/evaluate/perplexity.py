"""The perplexity of a model on plain text, with tools disabled (section 4.3), from its losses.

Shape suffix: N documents.
"""

import logging
import math
from dataclasses import dataclass

import numpy as np

from tools.base import InputError
from training.benchmarks.statistics import ratio_interval
from training.evaluate.answers import TextPerplexity

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLosses:
    """What a model makes of each text of a corpus, in order, with " [" disabled.

    `nats` has the sum of -log p over the `num_tokens` of a text that count, and `num_left_out` how
    many of its tokens are " [" and do not. A text that cannot be tokens has none of either.
    """

    nats: tuple[float, ...]
    num_tokens: tuple[int, ...]
    num_left_out: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One perplexity divided by another, and its 95% bootstrap interval over documents."""

    ratio: float
    low: float
    high: float
    num_documents: int


def perplexity_of(losses: DocumentLosses, *, name: str, corpus: str, seed: int) -> TextPerplexity:
    """The perplexity of the model called `name` on `corpus`: infinite where no float is that large.

    Resamples draw documents, each with all its tokens, which are not independent of each other.

    Raises:
        InputError: no text has a token that counts.
    """
    counts_N = np.array(losses.num_tokens, dtype=np.int64) > 0
    if not counts_N.any():
        raise InputError(f"{corpus}: none of its {len(counts_N)} texts has a token that counts")
    left_out = sum(losses.num_left_out)
    _log.info('%s on %s: %d tokens are " [" and do not count', name, corpus, left_out)
    nats_N = np.array(losses.nats)[counts_N]
    tokens_N = np.array(losses.num_tokens)[counts_N]
    low, high = ratio_interval(nats_N, tokens_N, seed=seed)
    return TextPerplexity(
        model=name,
        corpus=corpus,
        perplexity=_exp(float(nats_N.sum() / tokens_N.sum())),
        low=_exp(low),
        high=_exp(high),
        num_documents=len(nats_N),
        num_tokens=int(tokens_N.sum()),
    )


def perplexity_ratio(a: DocumentLosses, b: DocumentLosses, *, seed: int) -> Ratio:
    """The perplexity of `a` in parts of that of `b`; resamples draw documents with both losses.

    Raises:
        ValueError: these are not losses of the same tokens, or of none.
    """
    if a.num_tokens != b.num_tokens or not any(a.num_tokens):
        raise ValueError("the two models were not measured on the same tokens")
    counts_N = np.array(a.num_tokens) > 0
    more_N = (np.array(a.nats) - np.array(b.nats))[counts_N]
    tokens_N = np.array(a.num_tokens)[counts_N]
    low, high = ratio_interval(more_N, tokens_N, seed=seed)
    return Ratio(
        ratio=_exp(float(more_N.sum() / tokens_N.sum())),
        low=_exp(low),
        high=_exp(high),
        num_documents=len(tokens_N),
    )


def _exp(nats: float) -> float:
    try:
        return math.exp(nats)
    except OverflowError:
        return math.inf
