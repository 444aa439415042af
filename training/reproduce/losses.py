"""-log p of each document of a corpus, so that models are compared on the same documents.

Shape suffix: N documents.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.load import device_of
from pipeline.engines.torch_checkpoint import load_checkpoint, on_device
from tools.atomic import write_text_atomically
from training.evaluate.text_loss import TextLosses

_NUM_RESAMPLES = 10_000
_AT_ONCE = 500  # resamples
_PERCENTILES = (2.5, 97.5)  # of a 95% interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLosses:
    """For each document the sum of -log p in nats with " [" disabled, over so many tokens."""

    nats_N: NDArray[np.float64]
    tokens_N: NDArray[np.int64]

    @property
    def perplexity(self) -> float:
        return float(np.exp(self.nats_N.sum() / self.tokens_N.sum()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One perplexity divided by another, and the 95% bootstrap interval over documents."""

    ratio: float
    low: float
    high: float


def document_losses(model: Path, texts: Sequence[str], cached: Path) -> DocumentLosses:
    """The losses of a checkpoint on `texts`, kept in the file `cached` for another time.

    Raises:
        ConfigError: the checkpoint is missing, torn or not supported.
        OutputError: the file cannot be written.
    """
    if cached.exists():
        kept = json.loads(cached.read_bytes())
    else:
        kept = _measured(model, texts)
        write_text_atomically(cached, json.dumps(kept) + "\n")
    return DocumentLosses(
        nats_N=np.array(kept["nats"], dtype=np.float64),
        tokens_N=np.array(kept["tokens"], dtype=np.int64),
    )


def perplexity_ratio(a: DocumentLosses, b: DocumentLosses, *, seed: int) -> Ratio:
    """The perplexity of `a` in parts of that of `b`; resamples draw documents with both losses.

    Raises:
        ValueError: these are not losses of the same tokens.
    """
    if not np.array_equal(a.tokens_N, b.tokens_N):
        raise ValueError("the two models were not measured on the same tokens")
    generator, num = np.random.default_rng(seed), len(a.tokens_N)
    more_N = a.nats_N - b.nats_N
    drawn = []
    for _ in range(0, _NUM_RESAMPLES, _AT_ONCE):
        index_BN = generator.integers(num, size=(_AT_ONCE, num))
        drawn.append(more_N[index_BN].sum(axis=1) / a.tokens_N[index_BN].sum(axis=1))
    low, high = np.exp(np.percentile(np.concatenate(drawn), _PERCENTILES))
    return Ratio(
        ratio=float(np.exp(more_N.sum() / a.tokens_N.sum())), low=float(low), high=float(high)
    )


def _measured(model: Path, texts: Sequence[str]) -> dict[str, list[float]]:
    engine = EngineConfig()
    config = ModelConfig(path=str(model))
    checkpoint = load_checkpoint(config.path, config.revision, config.dtype)
    codec = checkpoint.codec
    lm, info = on_device(checkpoint.model, torch.device(device_of(engine)), checkpoint.weights_id)
    losses = TextLosses(
        lm, bos_id=checkpoint.bos_id, open_id=codec.open_ids[0], max_len=info.max_len
    ).of([codec.canonical(text) for text in texts], engine.token_budget, lambda done, total: None)
    return {
        "nats": [loss.nats for loss in losses],
        "tokens": [loss.num_tokens for loss in losses],
    }
