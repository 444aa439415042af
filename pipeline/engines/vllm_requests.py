"""P, S and L as requests to vLLM, and what its answers say.

Shape suffixes: n tokens of the document, A token ids asked for.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import Sample, SampleRequest, SamplingParams
from pipeline.engines.vllm_capabilities import TOP, Capabilities, PositionMethod
from tools.base import ContractError

Answer = TypeVar("Answer")

# What scores a prompt draws a token as well: the likeliest, which nobody looks at.
_SCORE = {"max_tokens": 1, "temperature": 0.0}
_SEED_BITS = (1 << 63) - 1  # vLLM's seeds are signed


class Core(Protocol):
    """What is asked: VLLMCore."""

    capabilities: Capabilities

    def in_flight(self, tokens: int) -> AbstractAsyncContextManager[None]:
        """An async context that waits until there is room for `tokens` more."""
        ...

    async def generate(self, prompt: Sequence[int], **params: Any) -> Any:
        """vLLM's RequestOutput for a prompt of token ids."""
        ...


@dataclass(slots=True)
class Tally:
    """Tokens through the model's body and rows through its head."""

    tokens: int = 0
    rows: int = 0

    def add(self, output: Any, rows: int) -> None:
        """One answer: the last token it drew went through nothing."""
        drawn = len(output.outputs[0].token_ids)
        cached = output.num_cached_tokens or 0
        self.tokens += len(output.prompt_token_ids) - cached + drawn - 1
        self.rows += rows


async def together(coroutines: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All answers, in order. If one fails the others are aborted and it is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def position_logprobs(
    core: Core,
    before: Sequence[int],
    x_ids: Sequence[int],
    token_ids: Sequence[int],
    method: PositionMethod,
    tally: Tally,
) -> NDArray[np.float32]:
    """[n, A]: row i is log p(token | before, x[:i]); with TOP -inf outside the likeliest."""
    if not x_ids:
        return np.zeros((0, len(token_ids)), dtype=np.float32)
    async with core.in_flight(len(before) + len(x_ids)):
        if method is PositionMethod.ONE_BY_ONE:
            # The longest first: the others find their prefix in the cache.
            rows = await together(
                _next_logprobs(core, [*before, *x_ids[:i]], token_ids, tally)
                for i in reversed(range(len(x_ids)))
            )
            return np.array(rows[::-1], dtype=np.float32)
        prompt = [*before, *x_ids]
        if method is PositionMethod.TOP:
            return await _among_the_likeliest(core, prompt, len(x_ids), token_ids, tally)
        ids_nA = np.tile(np.array(token_ids, dtype=np.int32), (len(x_ids), 1))
        return await _prompt_id_logprobs(core, prompt, ids_nA, tally)


async def token_logprobs(
    core: Core, before: Sequence[int], x_ids: Sequence[int], first: int, tally: Tally
) -> NDArray[np.float32]:
    """[len(x_ids) - first]: log p(x[j] | before, x[:j]) for j from `first` on."""
    prompt = [*before, *x_ids]
    async with core.in_flight(len(prompt)):
        if core.capabilities.prompt_ids:
            ids_n1 = np.array(x_ids[first:], dtype=np.int32)[:, None]
            return (await _prompt_id_logprobs(core, prompt, ids_n1, tally))[:, 0]
        output = await core.generate(prompt, prompt_logprobs=0, flat_logprobs=True, **_SCORE)
        tally.add(output, rows=len(prompt))
        logprobs = output.prompt_logprobs.logprobs[-(len(x_ids) - first) :]
        return np.array(logprobs, dtype=np.float32)


async def samples(
    core: Core,
    request: SampleRequest,
    params: SamplingParams,
    *,
    bos_id: int,
    eos_id: int | None,
    tally: Tally,
) -> list[list[Sample]]:
    """K lists of m samples."""
    before = [bos_id, *request.prompt_ids.tolist()]
    x_ids = request.x_ids.tolist()
    drawing = _drawing(params, eos_id)
    greedy = params.temperature == 0.0

    async def draw(position: int, seed: int) -> Sample:
        prompt = [*before, *x_ids[:position], *request.open_ids]
        seeded = {} if greedy else {"seed": seed & _SEED_BITS}
        output = await core.generate(prompt, **drawing, **seeded)
        token_ids = tuple(output.outputs[0].token_ids)
        tally.add(output, rows=len(token_ids))
        return Sample(token_ids, ended=token_ids[-1] in params.stop_ids)

    num_positions, num_samples = request.seeds_Km.shape if request.positions.size else (0, 0)
    drawn_each = min(num_samples, 1) if greedy else num_samples  # one greedy sample is all
    wanted = [
        (int(position), int(seed))
        for position, seeds_m in zip(request.positions, request.seeds_Km, strict=True)
        for seed in seeds_m[:drawn_each]
    ]
    own_tokens = len(wanted) * (len(request.open_ids) + params.max_new_tokens)
    async with core.in_flight(len(before) + len(x_ids) + own_tokens):
        drawn = await together(draw(position, seed) for position, seed in wanted)
    copies = num_samples // max(drawn_each, 1)
    return [drawn[k * drawn_each : (k + 1) * drawn_each] * copies for k in range(num_positions)]


def _drawing(params: SamplingParams, eos_id: int | None) -> dict[str, Any]:
    """What vLLM is told about all samples.

    A sample ends by token, not by vLLM's `stop="]"`: the tokens with "]" in them are the same
    set (no other byte of UTF-8 is that of "]"), and the engine's core knows them without a
    tokenizer, a text, or a token drawn too many.
    """
    stop_ids = params.stop_ids if eos_id is None else params.stop_ids | {eos_id}
    drawing = {
        "max_tokens": params.max_new_tokens,
        "temperature": params.temperature,
        "stop_token_ids": sorted(stop_ids),
    }
    return drawing if params.temperature == 0.0 else drawing | {"top_p": params.top_p}


async def _prompt_id_logprobs(
    core: Core, prompt: Sequence[int], ids_nA: NDArray[np.int32], tally: Tally
) -> NDArray[np.float32]:
    """[n, A]: log-probabilities of `ids_nA` in the places of the last n tokens of `prompt`.

    Where the prefix cache reaches past the first of them, because the same prompt came before,
    vLLM answers without them: then the request is made again past the cache.
    """
    for skip_cache in (False, True):
        output = await core.generate(
            prompt,
            prompt_logprob_token_ids=ids_nA,
            prompt_logprob_start=len(prompt) - len(ids_nA) - 1,
            skip_reading_prefix_cache=skip_cache,
            **_SCORE,
        )
        found = output.prompt_token_id_logprobs
        tally.add(output, rows=1 + (0 if found is None else len(found)))
        if found is not None:
            break
    logprobs_nA = np.asarray([] if found is None else found, dtype=np.float32)
    if logprobs_nA.shape != ids_nA.shape:
        raise ContractError(
            stage="vllm",
            doc_id=f"of {len(prompt)} tokens",
            got="no log-probabilities" if found is None else f"{logprobs_nA.shape} of them",
            expected=f"{ids_nA.shape} log-probabilities",
        )
    return logprobs_nA


async def _among_the_likeliest(
    core: Core, prompt: Sequence[int], n: int, token_ids: Sequence[int], tally: Tally
) -> NDArray[np.float32]:
    output = await core.generate(prompt, prompt_logprobs=TOP, flat_logprobs=True, **_SCORE)
    tally.add(output, rows=len(prompt))
    told = output.prompt_logprobs
    start = told.start_indices[-n]
    # Each row is the token that stands there and then the likeliest.
    ids_nR = np.array(told.token_ids[start:]).reshape(n, -1)
    logprobs_nR = np.array(told.logprobs[start:], dtype=np.float32).reshape(n, -1)
    columns = [np.where(ids_nR == token, logprobs_nR, -np.inf).max(axis=1) for token in token_ids]
    return np.stack(columns, axis=1).astype(np.float32) if columns else np.zeros((n, 0), np.float32)


async def _next_logprobs(
    core: Core, prompt: Sequence[int], token_ids: Sequence[int], tally: Tally
) -> list[float]:
    output = await core.generate(
        prompt, logprob_token_ids=list(token_ids), flat_logprobs=True, **_SCORE
    )
    tally.add(output, rows=1)
    told = output.outputs[0].logprobs
    found = dict(zip(told.token_ids, told.logprobs, strict=True))
    return [found[token] for token in token_ids]
