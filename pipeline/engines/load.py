"""The engine a configuration names."""

from pipeline.config import EngineConfig, ModelConfig
from pipeline.engines.protocol import LMEngine


def load_engine(model: ModelConfig, engine: EngineConfig) -> LMEngine:
    """A TorchEngine with the model's weights loaded, on a GPU where there is one.

    Raises:
        ConfigError: the checkpoint is missing, torn, or not supported.
    """
    # torch loads here and not with this module: drivers import it to hand it to an actor.
    from pipeline.engines.torch_engine import TorchEngine

    return TorchEngine(
        model.path,
        revision=model.revision,
        dtype=model.dtype,
        token_budget=engine.token_budget,
        num_threads=engine.num_threads,
    )
