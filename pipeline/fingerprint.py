"""What a run's bytes depend on, so that a run is only ever continued as what it was begun as."""

import hashlib
import importlib.metadata
import json
import os
from collections.abc import Mapping
from typing import Any

from pipeline.config import RunConfig
from pipeline.engine_config import Kind
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.vllm_capabilities import vllm_version
from pipeline.method import Method

# Settings that change speed, place or what is built afterwards, but no byte of a unit file.
_FREE = {
    "run",
    "input",
    "engine",  # what the kinds of work are answered by, see _engine_values
    "engines",
    "model",  # the weights themselves are fingerprinted, not where they lie
    "tool_cache",
    "report_tau_f",
    "max_failed_documents",
    "max_failed_calls",
}
# The last two decide what vLLM computes together, which the time of day decides as well.
_FREE_OF_AN_ENGINE = {"replicas", "num_gpus", "gpu_memory_utilization", "max_num_seqs"}
_FREE_OF_A_TOOL = {
    "prompt",
    "tau_f",
    "max_examples",
    "actors",
    "batch_size",
    "timeout_s",
    "retries",
    "num_gpus",
    "num_cpus",
}
# vLLM's own, read in the driver: they decide with which kernels it computes.
_VLLM_VARIABLES = ("VLLM_BATCH_INVARIANT", "VLLM_USE_V2_MODEL_RUNNER")
_PACKAGES = ("torch", "transformers", "ray", "pyarrow", "bm25s")


def fingerprint_of(
    config: RunConfig,
    method: Method,
    engines: Mapping[Kind, EngineInfo],
    tool_versions: Mapping[str, str],
    input_stamp: str,
) -> dict[str, Any]:
    """Every setting, by dotted key, that decides what a run writes. `auto` is decided."""
    values = {
        key: value
        for key, value in _flatten(config.model_dump(mode="json")).items()
        if not _is_free(key) and (method.mt_filter or not key.startswith("mt_filter."))
    }
    values |= _engine_values(config, engines)
    values |= {f"tools.{name}.version": version for name, version in tool_versions.items()}
    for name, tool in method.tools.items():
        values[f"tools.{name}.prompt"] = _hash(tool.template)
    if method.language_id is not None:
        values["mt_filter.language_id"] = method.language_id
    if config.exact_reductions:
        values["smallest tau_f"] = config.smallest_tau_f
    values["input"] = input_stamp
    return dict(sorted(values.items()))


def _engine_values(config: RunConfig, engines: Mapping[Kind, EngineInfo]) -> dict[str, Any]:
    """What answers, under "engine" where it is one pool, else for each kind.

    Where P and S have pools of their own, S finds nothing that P computed, and computes it in
    other company: that may change the last digits, and with them a sample. So may the number of
    threads, between which a CPU divides its sums.
    """
    values: dict[str, Any] = {}
    for pool in config.pools:
        vllm, info = pool.engine.name == "vllm", engines[pool.kinds[0]]
        free = _FREE_OF_AN_ENGINE | ({"kept_tokens"} if vllm else set())
        free |= {"num_threads"} if info.device != "cpu" else set()
        settings = pool.engine.model_dump(mode="json", exclude=free)
        if vllm:
            settings |= {name: os.environ[name] for name in _VLLM_VARIABLES if name in os.environ}
        settings |= info._asdict()
        places = ["engine"] if len(config.pools) == 1 else [f"engines.{k}" for k in pool.kinds]
        values |= {f"{place}.{key}": settings[key] for place in places for key in settings}
    return values


def digest(fingerprint: Mapping[str, Any]) -> str:
    """The fingerprint in 32 hexadecimal digits."""
    return _hash(json.dumps(fingerprint, sort_keys=True))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What differs, one line for each key: `key: before -> after`."""
    return [
        f"{key}: {before.get(key)!r} -> {after.get(key)!r}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def package_versions() -> dict[str, str]:
    """The versions of what computes; recorded, not part of the fingerprint."""
    versions = {name: importlib.metadata.version(name) for name in _PACKAGES}
    vllm = vllm_version()
    return versions if vllm is None else versions | {"vllm": vllm}


def _is_free(key: str) -> bool:
    if any(key == free or key.startswith(f"{free}.") for free in _FREE):
        return True
    parts = key.split(".")
    return parts[0] == "tools" and parts[2] in _FREE_OF_A_TOOL


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{prefix}.{key}" if prefix else key)
    return flat


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
