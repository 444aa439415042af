"""A checkpoint as the torch engines have it: read, put on its device, and compared with itself."""

from typing import NamedTuple

import torch
from transformers import PreTrainedModel

from pipeline.engines.causal_lm import CausalLM, causal_lm
from pipeline.engines.checkpoint import context_length, load_model, weights_id
from pipeline.engines.contract import load_codec
from pipeline.engines.protocol import EngineInfo
from pipeline.tokens import TokenCodec
from tools.base import ConfigError


class TorchCheckpoint(NamedTuple):
    """A model on the CPU, with its tokenizer."""

    model: PreTrainedModel
    codec: TokenCodec
    bos_id: int  # every sequence begins with it
    weights_id: str


def load_checkpoint(path: str, revision: str | None, dtype: str) -> TorchCheckpoint:
    """The checkpoint at a place.

    Raises:
        ConfigError: it is missing or torn, or its tokenizer is of another model.
    """
    codec, bos_id = load_codec(path, revision)
    model = load_model(path, revision, dtype)
    vocab_size = model.config.get_text_config().vocab_size
    if bos_id >= vocab_size:
        raise ConfigError(
            f"{path}: the model has {vocab_size} tokens and the tokenizer's "
            f"begin-of-text token is {bos_id}: they do not belong together"
        )
    return TorchCheckpoint(model, codec, bos_id, weights_id(path, revision))


def on_device(
    model: PreTrainedModel, device: torch.device, weights_id: str
) -> tuple[CausalLM, EngineInfo]:
    """The model in the form in which it is run there, and what it says it is.

    Raises:
        ConfigError: it is not supported.
    """
    config = model.config.get_text_config()
    max_len = context_length(config, type(model).__name__)
    lm = causal_lm(model, device, max_len)
    info = EngineInfo(
        name="torch",
        version=str(torch.__version__),
        device=device.type,
        dtype=str(lm.dtype).removeprefix("torch."),
        max_len=max_len,
        vocab_size=config.vocab_size,
        weights_id=weights_id,
    )
    return lm, info
