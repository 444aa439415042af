"""How large a model is, from its configuration."""

from typing import Any

from pipeline.config import ModelConfig
from tools.base import ConfigError, one_line


def num_parameters(checkpoint: ModelConfig) -> int:
    """The number of a model's parameters; tied ones count once. Its weights are not read.

    Raises:
        ConfigError: it is no causal language model that transformers knows.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    factory: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(checkpoint.path, revision=checkpoint.revision)
        with torch.device("meta"):
            model = factory.from_config(config)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{checkpoint.path}: no usable config.json: {one_line(error)}") from None
    return int(model.num_parameters())
