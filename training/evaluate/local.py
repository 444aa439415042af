"""A checkpoint as a model under evaluation, with live tools or without."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from pipeline.config import ModelConfig
from tools.base import InputError
from training.benchmarks.example import Example
from training.evaluate.config import EvaluateConfig
from training.evaluate.models import Completion
from training.generate.batch import text_fields
from training.generate.config import GenerateConfig
from training.generate.events import Generation
from training.generate.generator import Generator
from training.generate.params import GenerationParams


class LocalModel:
    """See training.evaluate.models.Model."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    async def answers(
        self, asked: Sequence[tuple[Example, GenerationParams]]
    ) -> AsyncGenerator[tuple[int, Completion], None]:
        """The completion of each prompt, in order; one that cannot be used has an error.

        Raises:
            InputError: the engine cannot choose tokens like that.
            ToolformerError: it cannot go on.
        """
        if asked:  # they differ in nothing an engine has a say in
            self._generator.check(asked[0][1])
        prompts = ((example.prompt, params) for example, params in asked)
        async with aclosing(self._generator.generate_all(prompts)) as outcomes:
            number = 0
            async for outcome in outcomes:
                yield number, _completion(outcome)
                number += 1


@asynccontextmanager
async def local_model(
    config: EvaluateConfig, checkpoint: ModelConfig, *, calls: bool, address: str | None
) -> AsyncIterator[LocalModel]:
    """The model, loaded, with the tools of the configuration where it may call them.

    Raises:
        ToolformerError: the model or a tool cannot be loaded.
    """
    generating = GenerateConfig(
        model=checkpoint,
        engine=config.engine,
        tools=config.tools if calls else {},
        tool_cache=config.tool_cache,
        max_result_tokens=config.max_result_tokens,
    )
    async with Generator(generating, address=address if calls else None) as generator:
        yield LocalModel(generator)


def _completion(outcome: Generation | InputError) -> Completion:
    if isinstance(outcome, InputError):
        return Completion(text=None, error=str(outcome))
    fields = text_fields(outcome)
    for call in fields["calls"]:
        del call["seconds"]  # the same answers are the same bytes
    return Completion(text=fields.pop("text"), line=fields)
