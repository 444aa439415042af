"""The engine a configuration names."""

from pipeline.config import EngineConfig, ModelConfig
from pipeline.engines.protocol import LMEngine


def device_of(engine: EngineConfig) -> str:
    """ "cuda" for replicas with a GPU, else "cpu", whatever GPUs a machine may have."""
    return "cuda" if engine.num_gpus > 0 else "cpu"


def load_engine(model: ModelConfig, engine: EngineConfig) -> LMEngine:
    """A TorchEngine with the model's weights loaded, on the device the configuration asks for.

    Raises:
        ConfigError: the checkpoint is missing, torn, or not supported.
    """
    # torch loads here and not with this module: drivers import it to hand it to an actor.
    from pipeline.engines.torch_engine import TorchEngine

    return TorchEngine(
        model.path,
        revision=model.revision,
        dtype=model.dtype,
        device=device_of(engine),
        token_budget=engine.token_budget,
        num_threads=engine.num_threads,
    )
