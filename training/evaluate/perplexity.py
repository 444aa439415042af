"""The perplexity of a causal language model on plain text, with tools disabled (section 4.3).

" [" has probability 0, and the other tokens share what it had; so a " [" of the text cannot count.
Differs from the paper: both hold for every model and not only for those that call tools. Models
with one tokenizer are then compared on the same tokens, and none gains by knowing what is not next.

Shape suffixes: N documents, B resamples.
"""

import gc
import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.load import device_of
from pipeline.engines.torch_checkpoint import load_checkpoint, on_device
from pipeline.tokens import Ids, NotLossless, TokenCodec
from tools.base import ConfigError, InputError
from training.evaluate.answers import TextPerplexity
from training.evaluate.text_loss import OnProgress, TextLoss, TextLosses
from training.finetune.perplexity import perplexity

_NUM_RESAMPLES = 10_000
_DRAWN_AT_ONCE = 1_000_000  # documents, over all resamples that are drawn together
_PERCENTILES = (2.5, 97.5)  # of a 95% interval

_log = logging.getLogger(__name__)


def text_perplexity(
    model: ModelConfig,
    texts: Sequence[str],
    *,
    name: str,
    corpus: str,
    seed: int,
    engine: EngineConfig | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> TextPerplexity:
    """The perplexity of a checkpoint, called `name`, on the texts of `corpus`.

    Torch runs it, whatever the engine's name, on its device and with its token_budget and
    num_threads. Texts that the tokenizer changes are left out; a warning says how many.

    Raises:
        ConfigError: the checkpoint is missing, torn or not supported, its logits are no numbers,
            a window does not fit into memory, or the engine splits the model.
        InputError: no text has a token that counts.
    """
    engine = engine or EngineConfig()
    if engine.tensor_parallel_size > 1:
        raise ConfigError(
            "perplexity is measured by torch, which does not split a model: "
            f"engine.tensor_parallel_size is {engine.tensor_parallel_size}, expected 1"
        )
    losses = [loss for loss in _losses(model, texts, engine, on_progress) if loss.num_tokens]
    _free_memory()
    if not losses:
        raise InputError(f"{corpus}: none of its {len(texts)} texts has a token that counts")
    left_out = sum(loss.num_left_out for loss in losses)
    _log.info('%s on %s: %d tokens are " [" and do not count', name, corpus, left_out)
    nats_N = np.array([loss.nats for loss in losses])
    tokens_N = np.array([loss.num_tokens for loss in losses])
    low, high = mean_interval(nats_N, tokens_N, seed=seed)
    return TextPerplexity(
        model=name,
        corpus=corpus,
        perplexity=perplexity(float(nats_N.sum() / tokens_N.sum())),
        low=perplexity(low),
        high=perplexity(high),
        num_documents=len(losses),
        num_tokens=int(tokens_N.sum()),
    )


def mean_interval(
    nats_N: NDArray[np.float64], tokens_N: NDArray[np.int64], *, seed: int
) -> tuple[float, float]:
    """The 95% bootstrap interval of the mean loss of a token, sum(nats) / sum(tokens), in nats.

    Documents are drawn, each with all its tokens, which are not independent of each other.
    """
    generator, num = np.random.default_rng(seed), len(nats_N)
    at_once = max(1, _DRAWN_AT_ONCE // num)
    means = []
    for start in range(0, _NUM_RESAMPLES, at_once):
        drawn_BN = generator.integers(num, size=(min(at_once, _NUM_RESAMPLES - start), num))
        means.append(nats_N[drawn_BN].sum(axis=1) / tokens_N[drawn_BN].sum(axis=1))
    low, high = np.percentile(np.concatenate(means), _PERCENTILES)
    return float(low), float(high)


def _losses(
    model: ModelConfig, texts: Sequence[str], engine: EngineConfig, on_progress: OnProgress
) -> list[TextLoss]:
    """The losses of the texts that can be tokens."""
    torch.set_num_threads(engine.num_threads)
    checkpoint = load_checkpoint(model.path, model.revision, model.dtype)
    codec, bos_id = checkpoint.codec, checkpoint.bos_id
    device = torch.device(device_of(engine))
    lm, info = on_device(checkpoint.model, device, checkpoint.weights_id)
    del checkpoint  # of a packed model only what is run stays
    losses = TextLosses(lm, bos_id=bos_id, open_id=codec.open_ids[0], max_len=info.max_len)
    return losses.of(list(_tokens(texts, codec)), engine.token_budget, on_progress)


def _free_memory() -> None:
    """Give back to the GPU what a model had that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _tokens(texts: Sequence[str], codec: TokenCodec) -> Iterator[Ids]:
    changed = 0
    for text in texts:
        try:
            yield codec.canonical(text)
        except NotLossless:
            changed += 1
    if changed:
        _log.warning("%d of %d texts are left out: the tokenizer changes them", changed, len(texts))
