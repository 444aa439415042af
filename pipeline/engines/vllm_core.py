"""The requests of this process to vLLM's, from any thread."""

import asyncio
import itertools
import logging
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from pipeline.engines.gone import EngineDied
from pipeline.engines.room import Room
from pipeline.engines.vllm_capabilities import Capabilities, vllm_version
from pipeline.engines.vllm_loop import run, stop, stream
from pipeline.engines.vllm_start import CoreSettings, start
from tools.base import ConfigError, ContractError, one_line

Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)

_KEPT_SHARE = 0.6  # of the cache, for what is in flight; the rest holds prefixes for others
_RESET_TRIES, _RESET_PAUSE_S = 100, 0.1


class VLLMCore:
    """One AsyncLLM. Its coroutines run in its loop; `run` may be called from any thread.

    Attributes:
        capabilities: what it can be asked for.
        kept_tokens: tokens of keys and values that may be in flight.
    """

    def __init__(self, settings: CoreSettings) -> None:
        """Raises ConfigError where vLLM is missing, of another device, or does not start."""
        self._running = start(settings)
        # Before the interpreter takes apart what vLLM needs to stop.
        self._stop = weakref.finalize(self, stop, self._running)
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        self._sampling_params, self._output_kinds = SamplingParams, RequestOutputKind
        config = self._running.llm.vllm_config
        self.capabilities = Capabilities.of(
            self._sampling_params.__struct_fields__,
            v2_model_runner=bool(getattr(config, "use_v2_model_runner", False)),
        )
        cache = config.cache_config
        self.kept_tokens = int(_KEPT_SHARE * cache.num_gpu_blocks * cache.block_size)
        self._room = Room(self.kept_tokens)
        self._numbers = itertools.count()
        self._torn: str | None = None  # where weights came from that may be there in part
        logger.info("vLLM %s: %s", vllm_version(), self.capabilities)

    def run(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """What `coroutine` returns. If the caller is interrupted, its requests are aborted.

        Raises:
            ConfigError: the weights were to be replaced and are not, or not all.
        """
        if self._torn:
            coroutine.close()
            raise self._refusal()
        return run(self._running, coroutine)

    def in_flight(self, tokens: int) -> AbstractAsyncContextManager[None]:
        """An async context that waits until there is room for `tokens` more."""
        return self._room.taken(tokens)

    async def generate(self, prompt: Sequence[int], **params: Any) -> Any:
        """vLLM's RequestOutput for a prompt of token ids.

        Raises:
            ContractError: vLLM refuses the request.
            EngineDied: its core is dead, and answers nothing any more.
        """
        kind = self._output_kinds.FINAL_ONLY
        [output] = [answer async for answer in self._outputs(prompt, output_kind=kind, **params)]
        return output

    def stream(self, prompt: Sequence[int], **params: Any) -> AsyncGenerator[Any, None]:
        """vLLM's RequestOutputs for a prompt, each with the tokens since the one before.

        Unlike `generate`, for any event loop. When it is closed or cancelled, so is the request.

        Raises:
            ConfigError: the weights were to be replaced and are not, or not all.
            ContractError: vLLM refuses the request.
            EngineDied: its core is dead or was stopped, and answers nothing any more.
        """
        if self._torn:
            raise self._refusal()
        kind = self._output_kinds.DELTA
        return stream(self._running, lambda: self._outputs(prompt, output_kind=kind, **params))

    async def _outputs(self, prompt: Sequence[int], **params: Any) -> AsyncIterator[Any]:
        from vllm.exceptions import VLLMError
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            async for output in self._running.llm.generate(
                {"type": "token", "prompt_token_ids": list(prompt)},
                self._sampling_params(detokenize=False, ignore_eos=True, **params),
                request_id=str(next(self._numbers)),
            ):
                yield output
        except EngineDeadError as error:
            raise EngineDied(f"vLLM's core is dead: {one_line(error)}") from error
        except VLLMError as error:
            raise ContractError(
                stage="vllm",
                doc_id=f"of {len(prompt)} tokens",
                got=f"{type(error).__name__}: {one_line(error)}",
                expected="an answer",
            ) from error

    def reload_weights(self, directory: str) -> None:
        """Go on with the weights in `directory`, without the keys and values of the old ones.

        Raises:
            ConfigError: vLLM could not do one or the other; nothing can be asked after that.
        """
        if self._torn:
            raise self._refusal()
        self._torn = directory
        run(self._running, reload_weights(self._running.llm, directory))
        self._torn = None

    def _refusal(self) -> ConfigError:
        return ConfigError(
            f"{self._torn}: vLLM may have loaded its weights only in part, and answers nothing "
            "until it is started anew"
        )

    def close(self) -> None:
        """Stop vLLM's processes and the loop. Nothing can be asked after that."""
        self._stop()


async def reload_weights(llm: Any, directory: str) -> None:
    """The weights in `directory` in an AsyncLLM, and an empty prefix cache. Raises ConfigError."""
    try:
        await llm.collective_rpc("reload_weights", kwargs={"weights_path": directory})
    except Exception as error:  # vLLM has no type for what fails in its core
        raise ConfigError(f"{directory}: vLLM cannot load its weights: {one_line(error)}") from None
    # Blocks of requests that were aborted are free only after the step they were in.
    for _ in range(_RESET_TRIES):
        if await llm.reset_prefix_cache():
            return
        await asyncio.sleep(_RESET_PAUSE_S)
    raise ConfigError(
        f"{directory}: vLLM keeps what it computed with the weights before: requests are at work "
        "that should have ended"
    )
