"""VLLMGeneration: texts that grow in vLLM, each stretch one request.

The keys and values of a text stay in vLLM's prefix cache, in whole blocks: what an earlier stretch
has of a block that is not full is run again.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.contract import longer_text
from pipeline.engines.generation import Choosing, GenerationUsage, Step
from pipeline.engines.room import Room
from pipeline.engines.vllm_capabilities import TOP, check_temperature
from pipeline.engines.vllm_engine import VLLMEngine
from tools.base import ConfigError

_SEED_BITS = (1 << 63) - 1  # vLLM's seeds are signed


class VLLMGeneration:
    """The GenerationEngine of generation.py on the vLLM of `engine`, which ends with it."""

    def __init__(self, engine: VLLMEngine) -> None:
        self._engine = engine
        self.info = engine.info
        # Not that of the core: this one is waited for in the caller's loop.
        self._room = Room(engine.core.kept_tokens)
        self._usage = GenerationUsage()

    @asynccontextmanager
    async def begin(self, max_tokens: int) -> AsyncIterator["_VLLMText"]:
        """A text of at most so many tokens, the begin-of-text token not counted.

        Raises:
            ContractError: it is longer than the context of the model.
        """
        if 1 + max_tokens > self.info.max_len:
            raise longer_text(max_tokens, self.info.max_len - 1)
        async with self._room.taken(1 + max_tokens):
            yield _VLLMText(self._steps, max_tokens)

    @staticmethod
    def check(choosing: Choosing) -> None:
        """Raises ConfigError for what vLLM cannot choose like."""
        check_temperature("temperature", choosing.temperature)
        if choosing.trigger_k > TOP:
            raise ConfigError(
                f"api_top_k: got {choosing.trigger_k}, expected at most {TOP}: vLLM tells no more "
                "of the likeliest tokens; use engine: torch"
            )

    def usage(self) -> GenerationUsage:
        """What vLLM did so far, as far as it tells.

        Tokens of other texts that are found again count as reused as well. What is under way
        when a stretch ends early, a token or two, is nowhere in it.
        """
        return self._usage

    async def close(self) -> None:
        """End vLLM's processes."""
        await asyncio.to_thread(self._engine.close)

    async def _steps(
        self, ids: NDArray[np.int32], choosing: Choosing
    ) -> AsyncGenerator[Step, None]:
        prompt = [self._engine.bos_id, *ids.tolist()]
        outputs = self._engine.core.stream(prompt, **asked(choosing, len(ids)))
        began = False
        async with aclosing(outputs):
            async for output in outputs:
                if not began:
                    began, reused = True, output.num_cached_tokens or 0
                    self._count(len(prompt) - reused - 1, reused, 0)
                # For each, the token before it went through the model's body.
                self._count(len(output.outputs[0].token_ids), 0, 0)
                for step in chosen(output.outputs[0], choosing):
                    self._count(0, 0, 1)
                    yield step
                    if step.triggered:
                        return  # tokens that vLLM drew after the one it chose are of no use

    def _count(self, run: int, reused: int, decoded: int) -> None:
        counts = zip(self._usage, (run, reused, decoded), strict=True)
        self._usage = GenerationUsage(*(so_far + more for so_far, more in counts))


class _VLLMText:
    """A text, of which vLLM knows nothing but its stretches."""

    def __init__(
        self,
        steps: Callable[[NDArray[np.int32], Choosing], AsyncGenerator[Step, None]],
        max_tokens: int,
    ) -> None:
        self._steps, self._max_tokens = steps, max_tokens

    def stretch(self, ids: NDArray[np.int32], choosing: Choosing) -> AsyncGenerator[Step, None]:
        """What the model goes on with after `ids`: all tokens of the text so far.

        Raises:
            ConfigError: vLLM cannot choose like that.
            ContractError: the text would get longer than it was announced.
            EngineDied: vLLM is dead or was stopped.
        """
        if len(ids) + choosing.max_new_tokens > self._max_tokens:
            raise longer_text(len(ids) + choosing.max_new_tokens, self._max_tokens)
        return self._steps(ids, choosing)


def asked(choosing: Choosing, length: int) -> dict[str, Any]:
    """The parameters of vLLM's for a stretch of a text that has `length` tokens.

    Raises:
        ConfigError: vLLM cannot choose like that.
    """
    VLLMGeneration.check(choosing)
    params: dict[str, Any] = {
        "max_tokens": choosing.max_new_tokens,
        "temperature": choosing.temperature,
        "stop_token_ids": sorted(choosing.stop_ids),
    }
    if choosing.temperature:
        # vLLM goes on drawing with the generator a request began with: a text cut into other
        # stretches may be drawn differently.
        params |= {"top_p": choosing.top_p, "seed": _seed(choosing.seed, length)}
    if choosing.banned_ids:
        # Exact; the -100 of vLLM's server leaves a likely token some probability.
        params["logit_bias"] = dict.fromkeys(sorted(choosing.banned_ids), float("-inf"))
    if _may_trigger(choosing):
        assert choosing.trigger_id in choosing.stop_ids, "a stretch ends with what is triggered"
        # Of the model itself, without temperature, top_p and what is banned.
        params |= {"logprobs": choosing.trigger_k, "flat_logprobs": True}
    return params


def chosen(completion: Any, choosing: Choosing) -> Iterator[Step]:
    """The tokens of a part of vLLM's answer; where one triggers, those after it are nothing."""
    for place, token_id in enumerate(completion.token_ids):
        if _may_trigger(choosing) and token_id != choosing.trigger_id:
            told = completion.logprobs
            # Each row is the token that was drawn and then the likeliest.
            row = told.token_ids[told.start_indices[place] : told.end_indices[place]]
            if choosing.trigger_id in row:
                assert choosing.trigger_id is not None
                yield Step(choosing.trigger_id, triggered=True)
                return
        yield Step(token_id)


def _may_trigger(choosing: Choosing) -> bool:
    return bool(choosing.trigger_k) and choosing.trigger_id not in {None, *choosing.banned_ids}


def _seed(seed: int, length: int) -> int:
    digest = hashlib.blake2b(f"{seed}\x1f{length}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _SEED_BITS
