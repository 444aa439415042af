"""Text with live tools (paper, section 2, Inference, and section 4.2)."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import islice
from types import TracebackType

from pipeline.engines.generation import GenerationEngine
from pipeline.engines.load import load_generation_engine
from pipeline.tokens import Ids, NotLossless, TokenCodec
from tools.base import ConfigError, InputError
from training.generate.config import GenerateConfig
from training.generate.events import Event, Generation
from training.generate.live_tools import live_tools
from training.generate.markers import markers_of
from training.generate.params import GenerationParams
from training.generate.tool_names import ToolNames
from training.generate.writer import Setting, Writer, choosing_of, tokens_needed

_AT_ONCE = 1024  # texts of a batch; the engine has room for fewer, and lets the others wait


class Generator:
    """A model with its tools.

        async with Generator(config) as generator:
            async for event in generator.stream("The sum of 27 and 15 is"):
                ...

    or, for a batch, outside of any event loop: `generate(config, prompts, params)`.

    Attributes:
        defaults: the decoding parameters of the configuration.
    """

    defaults: GenerationParams

    def __init__(
        self,
        config: GenerateConfig,
        *,
        address: str | None = None,
        engine: GenerationEngine | None = None,
    ) -> None:
        """Nothing is loaded yet.

        `address` is that of the Ray cluster for the tools' actors. An `engine` that is given has
        loaded `config.model` and is left open at the end.
        """
        self.defaults = config.decoding
        self._config, self._address = config, address
        self._given_engine = engine
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Generator":
        """Load the model and the tools.

        Raises:
            ToolformerError: one of them cannot be loaded.
        """
        config = self._config
        async with AsyncExitStack() as stack:
            model = config.model
            codec = await asyncio.to_thread(TokenCodec.load, model.path, revision=model.revision)
            # What is wrong with a tool shows at once, and a large model takes minutes.
            tools = await stack.enter_async_context(
                live_tools(config.tools, cache=config.tool_cache, address=self._address)
            )
            given = self._given_engine
            self._engine = await self._loaded(stack) if given is None else given
            self._context = self._engine.info.max_len - 1  # without the begin-of-text token
            vocab_size = self._engine.info.vocab_size
            self._setting = Setting(
                codec=codec,
                markers=markers_of(codec, vocab_size),
                names=ToolNames(config.tools, codec.token_bytes(range(vocab_size))),
                ask=tools.ask,
                max_result_tokens=config.max_result_tokens,
            )
            self._stack = stack.pop_all()
        return self

    async def _loaded(self, stack: AsyncExitStack) -> GenerationEngine:
        config = self._config
        engine = await asyncio.to_thread(load_generation_engine, config.model, config.engine)
        stack.push_async_callback(engine.close)
        return engine

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def stream(
        self, prompt: str, params: GenerationParams | None = None
    ) -> AsyncGenerator[Event, None]:
        """The events of one text; the last is its Generation. Closing it ends the text.

        Raises:
            InputError: at once; the prompt is no text, or leaves no room in the model's context,
                or the engine cannot choose tokens like that.
        """
        params = params or self.defaults
        self.check(params)
        return self._events(self._prompt_ids(prompt), params)

    def check(self, params: GenerationParams) -> None:
        """Nothing, if texts can be generated like that.

        Raises:
            InputError: the engine cannot choose tokens like that.
        """
        try:
            self._engine.check(choosing_of(params))
        except ConfigError as error:
            raise InputError(str(error)) from None

    async def generate(self, prompt: str, params: GenerationParams | None = None) -> Generation:
        """One finished text.

        Raises:
            InputError: the prompt is no text, or leaves no room in the model's context.
        """
        async with aclosing(self.stream(prompt, params)) as events:
            async for event in events:
                if isinstance(event, Generation):
                    return event
        raise AssertionError("a text ends with its Generation")

    async def generate_all(
        self, asked: Iterable[tuple[str, GenerationParams | None]]
    ) -> AsyncGenerator[Generation | InputError, None]:
        """What becomes of each prompt, in order, although they are generated side by side.

        An InputError says why a prompt has no text; any other error ends all.
        """
        waiting, running = iter(asked), deque[asyncio.Task[Generation | InputError]]()
        try:
            while True:
                for prompt, params in islice(waiting, _AT_ONCE - len(running)):
                    running.append(asyncio.create_task(self._outcome(prompt, params)))
                if not running:
                    return
                yield await running[0]
                running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _outcome(
        self, prompt: str, params: GenerationParams | None
    ) -> Generation | InputError:
        try:
            return await self.generate(prompt, params)
        except InputError as error:
            return error

    def _prompt_ids(self, prompt: str) -> Ids:
        try:
            ids = self._setting.codec.beginning(prompt)
        except NotLossless as error:
            raise InputError(f"the prompt cannot be used: {error}") from None
        if len(ids) >= self._context:
            raise InputError(
                f"the prompt is too long: {len(ids)} tokens, and the model's context of "
                f"{self._context} leaves none for more text"
            )
        return ids

    async def _events(self, ids: Ids, params: GenerationParams) -> AsyncGenerator[Event, None]:
        needed = tokens_needed(len(ids), params, self._setting.max_result_tokens)
        max_tokens = min(self._context, needed)
        async with self._engine.begin(max_tokens) as text:
            writer = Writer(text, ids, params, self._setting, max_tokens=max_tokens)
            async with aclosing(writer.events()) as events:
                async for event in events:
                    yield event


def generate(
    config: GenerateConfig, prompts: Sequence[str], params: GenerationParams | None = None
) -> list[Generation]:
    """A finished text for each prompt, in order, all side by side.

    Raises:
        ToolformerError: the model or a tool cannot be loaded, or a prompt cannot be used.
    """

    async def all_of_them() -> list[Generation]:
        async with (
            Generator(config) as generator,
            aclosing(generator.generate_all((prompt, params) for prompt in prompts)) as outcomes,
        ):
            return [text_of(outcome) async for outcome in outcomes]

    return asyncio.run(all_of_them())


def text_of(outcome: Generation | InputError) -> Generation:
    """The text, where there is one. Raises the InputError that says why there is none."""
    if isinstance(outcome, InputError):
        raise outcome
    return outcome
