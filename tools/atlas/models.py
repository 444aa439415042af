"""The two networks of Atlas, built from a config.json and a model.safetensors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import BertConfig, BertModel, T5Config, T5ForConditionalGeneration

from tools.atlas.saved import CONFIG, WEIGHTS
from tools.base import InputError

Config = dict[str, Any]
# The plainest: one product of matrices after the other, in the same way on every device.
_ATTENTION = "eager"
_SHARED = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}


class UntiedT5(T5ForConditionalGeneration):  # type: ignore[no-untyped-call]
    """T5 v1.1 has an output layer of its own, which transformers 5 would tie to the embeddings.

    It does so for any config, without a word, when weights are loaded.
    """

    _tied_weights_keys = {  # noqa: RUF012
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    }


def build_reader(config: Config) -> torch.nn.Module:
    """The reader without weights, on the meta device."""
    with torch.device("meta"):
        model = UntiedT5(T5Config(**config, attn_implementation=_ATTENTION))  # type: ignore[call-arg]
    model.tie_weights()
    return model


def build_retriever(config: Config) -> torch.nn.Module:
    """The retriever with weights that mean nothing yet."""
    bert_config = BertConfig(**config, attn_implementation=_ATTENTION)  # type: ignore[call-arg]
    return BertModel(bert_config, add_pooling_layer=False)  # type: ignore[no-untyped-call]


def load_model(
    build: Callable[[Config], torch.nn.Module],
    directory: Path,
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> torch.nn.Module:
    """The network in `directory`, ready to run; one weight at a time is read and cast.

    Raises:
        InputError: a file is torn, or they are of different models.
    """
    try:
        config = json.loads((directory / CONFIG).read_bytes())
        model = build(config)
        with safe_open(directory / WEIGHTS, framework="pt") as weights:
            tensors = {
                name: weights.get_tensor(name).to(device=device, dtype=dtype)
                for name in weights.keys()  # noqa: SIM118
            }
        _, unexpected = model.load_state_dict(tensors, strict=False, assign=True)
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise InputError(f"{directory}: cannot load: {str(error).partition(chr(10))[0]}") from None
    model.tie_weights()  # type: ignore[operator]
    absent = model.state_dict().keys() - tensors.keys() - _SHARED
    if unexpected or absent:
        raise InputError(f"{directory}: {CONFIG} and {WEIGHTS} are of different models")
    return model.to(device).eval().requires_grad_(False)
