"""What a model is, without loading its weights: for planning, fingerprints and resuming."""

import importlib.metadata

from pipeline.config import EngineConfig, ModelConfig
from pipeline.engines.checkpoint import load_config, weights_id
from pipeline.engines.load import device_of
from pipeline.engines.protocol import EngineInfo


def describe_model(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
    """What TorchEngine.info says once the weights are loaded.

    Raises:
        ConfigError: the checkpoint is not there or states no context length.
    """
    config = load_config(model.path, model.revision)
    return EngineInfo(
        name="torch",
        version=importlib.metadata.version("torch"),
        device=device_of(engine),
        dtype=model.dtype,
        max_len=config.context_length,
        vocab_size=config.vocab_size,
        weights_id=weights_id(model.path, model.revision),
    )
