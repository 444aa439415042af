"""What a model is, without loading its weights: for planning, fingerprints and resuming."""

import importlib.metadata
from collections.abc import Mapping

from pipeline.config import ModelConfig, RunConfig
from pipeline.engine_config import KINDS, EngineConfig, Kind
from pipeline.engines.checkpoint import load_config, weights_id
from pipeline.engines.load import chosen, device_of, installed_vllm
from pipeline.engines.own import describe_own
from pipeline.engines.protocol import EngineInfo


def describe_model(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
    """What `info` of the engine says once the weights are loaded.

    Raises:
        ConfigError: the checkpoint is not there or states no context length, or the engine is
            not installed.
    """
    engine = chosen(engine)
    if engine.is_own:
        return describe_own(model, engine)
    config, device = load_config(model.path, model.revision), device_of(engine)
    vllm = engine.name == "vllm"
    version = installed_vllm(device) if vllm else importlib.metadata.version("torch")
    assert version is not None  # `chosen` refuses it
    return EngineInfo(
        name=engine.name,
        version=version,
        device=device,
        dtype=model.dtype,
        max_len=config.context_length,
        vocab_size=config.vocab_size,
        weights_id=weights_id(model.path, model.revision),
    )


def describe_engines(config: RunConfig) -> dict[Kind, EngineInfo]:
    """What answers each kind of work.

    Raises:
        ConfigError: see `describe_model`.
    """
    infos = {pool.kinds: describe_model(config.model, pool.engine) for pool in config.pools}
    return {kind: info for kind in KINDS for kinds, info in infos.items() if kind in kinds}


def shortest_context(infos: Mapping[Kind, EngineInfo]) -> int:
    """The most tokens of a sequence that every engine reads."""
    return min(info.max_len for info in infos.values())


def engines_line(config: RunConfig, infos: Mapping[Kind, EngineInfo]) -> str:
    """What will run M, in one line for the user; `auto` is decided."""
    parts = []
    for pool in config.pools:
        info, replicas = infos[pool.kinds[0]], pool.engine.replicas
        gpus = f" of {pool.engine.gpus} GPUs" if pool.engine.gpus > 1 else ""
        parts.append(
            f"{info.name} {info.version}, {replicas} replica{'s' * (replicas > 1)}{gpus}, "
            f"{info.dtype} on {info.device}"
        )
        if info.name == "torch":
            parts[-1] += f", {_how_it_runs(config.model)}"
    if len(parts) == 1:
        return f"engine: {parts[0]}"
    named = (f"{pool.name}: {part}" for pool, part in zip(config.pools, parts, strict=True))
    return f"engines: {'; '.join(named)}"


def _how_it_runs(model: ModelConfig) -> str:
    why_not_packed = load_config(model.path, model.revision).why_not_packed
    if why_not_packed is None:
        return "packed"
    return f"through transformers, which is slower: the model is {why_not_packed}"
