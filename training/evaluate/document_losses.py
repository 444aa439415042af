"""What a causal language model makes of plain text, with tools disabled (section 4.3).

" [" has probability 0, and the other tokens share what it had; so a " [" of the text cannot count.
Differs from the paper: both hold for every model and not only for those that call tools. Models
with one tokenizer are then compared on the same tokens, and none gains by knowing what is not next.
"""

import gc
import logging
from collections.abc import Sequence

import numpy as np
import torch

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.load import device_of
from pipeline.engines.torch_checkpoint import load_checkpoint, on_device
from pipeline.tokens import Ids, NotLossless, TokenCodec
from tools.base import ConfigError
from training.evaluate.perplexity import DocumentLosses
from training.evaluate.text_loss import OnProgress, TextLoss, TextLosses

_log = logging.getLogger(__name__)


def document_losses(
    model: ModelConfig,
    texts: Sequence[str],
    *,
    engine: EngineConfig | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> DocumentLosses:
    """The losses of a checkpoint on each of `texts`.

    Torch runs it, whatever the engine's name, on its device and with its token_budget and
    num_threads. A text that the tokenizer changes has no tokens; a warning says how many.

    Raises:
        ConfigError: the checkpoint is missing, torn or not supported, its logits are no numbers,
            a window does not fit into memory, or the engine splits the model.
    """
    engine = engine or EngineConfig()
    if engine.tensor_parallel_size > 1:
        raise ConfigError(
            "perplexity is measured by torch, which does not split a model: "
            f"engine.tensor_parallel_size is {engine.tensor_parallel_size}, expected 1"
        )
    losses = _losses(model, texts, engine, on_progress)
    _free_memory()
    return DocumentLosses(
        nats=tuple(loss.nats for loss in losses),
        num_tokens=tuple(loss.num_tokens for loss in losses),
        num_left_out=tuple(loss.num_left_out for loss in losses),
    )


def _losses(
    model: ModelConfig, texts: Sequence[str], engine: EngineConfig, on_progress: OnProgress
) -> list[TextLoss]:
    torch.set_num_threads(engine.num_threads)
    checkpoint = load_checkpoint(model.path, model.revision, model.dtype)
    codec, bos_id = checkpoint.codec, checkpoint.bos_id
    device = torch.device(device_of(engine))
    lm, info = on_device(checkpoint.model, device, checkpoint.weights_id)
    del checkpoint  # of a packed model only what is run stays
    losses = TextLosses(lm, bos_id=bos_id, open_id=codec.open_ids[0], max_len=info.max_len)
    return losses.of(_tokens(texts, codec), engine.token_budget, on_progress)


def _free_memory() -> None:
    """Give back to the GPU what a model had that nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _tokens(texts: Sequence[str], codec: TokenCodec) -> list[Ids]:
    """The tokens of each text; none of one that they do not spell."""
    ids, changed = [], 0
    for text in texts:
        try:
            ids.append(codec.canonical(text))
        except NotLossless:
            ids.append(np.empty(0, dtype=np.int32))
            changed += 1
    if changed:
        _log.warning("%d of %d texts are left out: the tokenizer changes them", changed, len(texts))
    return ids
