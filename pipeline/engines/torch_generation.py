"""TorchGeneration: the GenerationEngine of any Hugging Face causal language model."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from pipeline.engines.contract import longer_text
from pipeline.engines.generation import Choosing, GenerationUsage, Step
from pipeline.engines.memory import is_out_of_memory
from pipeline.engines.room import Room
from pipeline.engines.stretches import KeptText, Stretch, Stretches
from pipeline.engines.torch_checkpoint import load_checkpoint, on_device
from tools.base import ConfigError, ContractError, one_line

_Answers = asyncio.Queue[Step | Exception | None]


class TorchGeneration:
    """The GenerationEngine of generation.py; passes of at most `token_budget` tokens.

    Stretches join and leave between two passes. A pass runs in a thread of its own, so that the
    event loop is free for tools and whoever reads; what it gave is handed out before the next
    begins, so that who wants no more of it costs nothing.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        bos_id: int,
        weights_id: str,
        device: str = "cpu",
        token_budget: int = 8192,
        kept_tokens: int = 32_768,
        num_threads: int = 1,
    ) -> None:
        """An engine of a model in memory. Raises ConfigError for one that is not supported."""
        torch.set_num_threads(num_threads)
        lm, self.info = on_device(model, torch.device(device), weights_id)
        self._lm, self._token_budget = lm, token_budget
        self._stretches = Stretches(lm, bos_id)
        self._room = Room(max(kept_tokens, self.info.max_len))  # one text at least
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="generation")
        self._answers: dict[Stretch, _Answers] = {}  # in order of arrival
        self._driver: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    def load(
        cls,
        path: str,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        token_budget: int = 8192,
        kept_tokens: int = 32_768,
        num_threads: int = 1,
    ) -> "TorchGeneration":
        """The engine of a checkpoint.

        Raises:
            ConfigError: the checkpoint is missing, torn, or not supported.
        """
        model, _, bos_id, weights_id = load_checkpoint(path, revision, dtype)
        return cls(
            model,
            bos_id=bos_id,
            weights_id=weights_id,
            device=device,
            token_budget=token_budget,
            kept_tokens=kept_tokens,
            num_threads=num_threads,
        )

    @asynccontextmanager
    async def begin(self, max_tokens: int) -> AsyncIterator["_TorchText"]:
        """A text of at most so many tokens, the begin-of-text token not counted.

        Raises:
            ContractError: it is longer than the context of the model.
        """
        if 1 + max_tokens > self.info.max_len:
            raise longer_text(max_tokens, self.info.max_len - 1)
        async with self._room.taken(1 + max_tokens):
            kept = self._stretches.begin()
            text = _TorchText(self, kept, max_tokens)
            try:
                yield text
            finally:
                text.end()
                if not self._closed:  # after the pass that may be at work
                    self._thread.submit(self._stretches.forget, kept)

    def check(self, choosing: Choosing) -> None:
        """Nothing: it can choose in every way."""

    def usage(self) -> GenerationUsage:
        """What the model did so far; the begin-of-text token of each text counts as well."""
        stretches = self._stretches
        return GenerationUsage(
            self._lm.tokens_run, stretches.reused_tokens, stretches.decoded_tokens
        )

    async def close(self) -> None:
        """End what runs; nothing can be asked after that."""
        self._closed = True
        self._end_all(_closed())
        if self._driver is not None and not self._driver.done():
            await asyncio.wait([self._driver])
        self._thread.shutdown()

    def enter(self, stretch: Stretch) -> _Answers:
        """What the stretch goes on with, from the next pass on: tokens, then None or an error."""
        if self._closed:
            raise _closed()
        answers = self._answers[stretch] = asyncio.Queue()
        if self._driver is None or self._driver.done():
            self._driver = asyncio.create_task(self._drive())
        return answers

    def leave(self, stretch: Stretch, error: Exception | None = None) -> None:
        """End a stretch before the next pass; nothing if it has ended."""
        answers = self._answers.pop(stretch, None)
        if answers is not None:
            answers.put_nowait(error)

    async def _drive(self) -> None:
        """Passes as long as there are stretches."""
        loop = asyncio.get_running_loop()
        while self._answers:
            try:
                parts = self._stretches.next_pass(list(self._answers), self._token_budget)
                steps = await loop.run_in_executor(self._thread, self._stretches.run, parts)
            except Exception as error:  # whatever it is, those who wait must hear of it
                self._end_all(_shown(error))
                continue
            for (stretch, _), step in zip(parts, steps, strict=True):
                self._hand_out(stretch, step)
            await asyncio.sleep(0)  # they go on first: they may leave, or come back with more

    def _hand_out(self, stretch: Stretch, step: Step | ConfigError | None) -> None:
        answers = self._answers.get(stretch)
        if answers is None or step is None:
            return  # it left during the pass, or more of its tokens wait
        if isinstance(step, ConfigError):
            self.leave(stretch, step)
            return
        answers.put_nowait(step)
        if stretch.take(step.token_id):
            self.leave(stretch)

    def _end_all(self, error: Exception) -> None:
        for stretch in list(self._answers):
            self.leave(stretch, error)


class _TorchText:
    """See pipeline.engines.generation.Text."""

    def __init__(self, engine: TorchGeneration, kept: KeptText, max_tokens: int) -> None:
        self._engine, self._kept, self._max_tokens = engine, kept, max_tokens
        self._last: Stretch | None = None
        self._ended = False

    def end(self) -> None:
        """End its stretch, if one is open, and begin no more."""
        self._ended = True
        if self._last is not None:
            self._engine.leave(self._last)

    def stretch(self, ids: NDArray[np.int32], choosing: Choosing) -> AsyncGenerator[Step, None]:
        """What the model goes on with after `ids`: all tokens of the text so far.

        Raises:
            ConfigError: the model's logits are no numbers, or there is no memory for the text.
            ContractError: the text would get longer than it was announced.
        """
        if len(ids) + choosing.max_new_tokens > self._max_tokens:
            raise longer_text(len(ids) + choosing.max_new_tokens, self._max_tokens)
        return self._steps(Stretch(text=self._kept, ids=ids, choosing=choosing))

    async def _steps(self, stretch: Stretch) -> AsyncGenerator[Step, None]:
        if self._ended:
            return
        if self._last is not None:
            self._engine.leave(self._last)  # nobody may have closed its iterator
        self._last = stretch
        answers = self._engine.enter(stretch)
        try:
            while (answer := await answers.get()) is not None:
                if isinstance(answer, Exception):
                    raise answer
                yield answer
        finally:
            self._engine.leave(stretch)


def _closed() -> ContractError:
    return ContractError(
        stage="generate", doc_id="any", got="a closed engine", expected="one that is open"
    )


def _shown(error: Exception) -> Exception:
    """The error, in one line that says what to do where memory ran out."""
    if not is_out_of_memory(error):
        return error
    return ConfigError(
        f"out of memory: {one_line(error)}; lower token_budget or kept_tokens of the engine"
    )
