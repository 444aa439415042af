import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import ModelConfig
from pipeline.tool_config import ServedTool
from tests.training.generate.reciting import MODEL, Reciting, tokens
from tools.base import ConfigError, InputError
from training.generate.config import GenerateConfig
from training.generate.events import Generation
from training.generate.generator import Generator
from training.generate.params import GenerationParams

SUM = (" The", " sum", " of", " [", "Calculator(1 + 2)", " ->", " 3", "]", " is", " 3.")
SLOW = (" A", " [", "Breakable(slow)", " ->", " slow", "]", " end")
QUICK = (" B", " end")


def config(**settings: Any) -> GenerateConfig:
    tools = {
        "Calculator": ServedTool(),
        "Breakable": ServedTool(factory="tests.pipeline.breakable_tool:BreakableTool"),
    }
    return GenerateConfig(model=ModelConfig(path=MODEL), tools=tools, **settings)


def generate(engine: Reciting, prompt: str, **params: Any) -> Generation:
    async def generated() -> Generation:
        async with Generator(config(), engine=engine) as generator:
            return await generator.generate(prompt, GenerationParams(**params))

    return asyncio.run(generated())


def outcomes(engine: Reciting, *prompts: str) -> list[str]:
    """What becomes of the prompts: texts and errors, in order."""

    async def all_of_them() -> list[str]:
        async with Generator(config(), engine=engine) as generator:
            outcomes = generator.generate_all((prompt, None) for prompt in prompts)
            return [
                str(outcome) if isinstance(outcome, InputError) else outcome.text
                async for outcome in outcomes
            ]

    return asyncio.run(all_of_them())


def test_the_tools_of_the_configuration_answer() -> None:
    generation = generate(Reciting([SUM]), "The sum of")
    assert generation.annotated == " [Calculator(1 + 2) -> 3] is 3."
    assert generation.text == " is 3."


@pytest.mark.parametrize(
    ("prompt", "pieces"),
    [
        ("The sum", [" The", " sum"]),
        (" The sum", [" The", " sum"]),
        ("\n  The sum \t", [" The", " sum"]),
        ("The sum\n\n", [" The sum\n\n"]),
        ("The sum\n \t", [" The sum\n"]),
        ("", []),
        (" \n", []),
    ],
)
def test_a_prompt_is_the_beginning_of_a_document(prompt: str, pieces: list[str]) -> None:
    engine = Reciting([])
    assert generate(engine, prompt).cost.prompt_tokens == len(tokens(pieces))
    assert engine.asked[0][0] == tokens(pieces)


def test_a_prompt_that_is_no_text_is_an_error_of_one_line() -> None:
    with pytest.raises(InputError, match=r"^the prompt cannot be used: .*not valid Unicode$"):
        generate(Reciting([]), "\ud800")


def test_what_the_engine_cannot_choose_like_is_an_error_before_any_text() -> None:
    engine = Reciting([SUM], most_likely=20)
    with pytest.raises(InputError, match=r"^api_top_k: got 30"):
        generate(engine, "The sum", api_top_k=30)
    assert engine.announced == []


def test_a_prompt_leaves_room_for_a_token_at_least() -> None:
    engine = Reciting([SUM], max_len=1 + len(tokens([" The", " sum"])))
    generation = generate(engine, "The")
    assert (generation.text, generation.finish_reason) == (" sum", "length")
    with pytest.raises(InputError, match=r"^the prompt is too long: 3 tokens, and the model's"):
        generate(engine, "The sum")


@pytest.mark.parametrize(
    ("params", "announced"),
    [
        ({"max_new_tokens": 10, "max_calls": 0}, 1 + 10),
        ({"max_new_tokens": 10, "api_top_k": 0}, 1 + 10),
        ({"max_new_tokens": 10, "max_call_tokens": 7, "max_calls": 2}, 1 + 10 + 2 * (7 + 100 + 8)),
        ({"max_new_tokens": 10_000}, 499),
    ],
)
def test_the_engine_is_told_what_a_text_can_need(params: dict[str, int], announced: int) -> None:
    engine = Reciting([])
    generate(engine, "The", **params)
    assert engine.announced == [announced]


def test_a_text_has_the_defaults_of_the_configuration() -> None:
    async def generated() -> Generation:
        settings = config(decoding=GenerationParams(max_new_tokens=1))
        async with Generator(settings, engine=Reciting([SUM])) as generator:
            assert generator.defaults.max_new_tokens == 1
            return await generator.generate("The sum")

    assert asyncio.run(generated()).text == " of"


def test_a_text_that_waits_for_a_tool_holds_up_no_other() -> None:
    finished: list[str] = []

    async def all_of_them() -> None:
        async with Generator(config(), engine=Reciting([SLOW, QUICK])) as generator:

            async def generate(prompt: str) -> None:
                await generator.generate(prompt)
                finished.append(prompt)

            await asyncio.gather(*map(generate, ("A", "B", "B")))

    asyncio.run(all_of_them())
    assert finished == ["B", "B", "A"]


def test_outcomes_are_in_order_and_a_prompt_without_a_text_is_one() -> None:
    engine = Reciting([SLOW, QUICK])
    first, second, third = outcomes(engine, "A", "\ud800", "B")
    assert (first, third) == (" end", " end")
    assert "the prompt cannot be used" in second
    assert engine.open_texts == 0


def test_more_prompts_than_are_begun_at_once_wait() -> None:
    drawn = 0

    def prompts() -> Iterator[str]:
        nonlocal drawn
        for _ in range(10**6):
            drawn += 1
            yield "A"

    async def first(engine: Reciting) -> str:
        async with Generator(config(), engine=engine) as generator:
            asked = ((prompt, None) for prompt in prompts())
            async with aclosing(generator.generate_all(asked)) as finished:
                outcome = await anext(finished)
            assert isinstance(outcome, Generation)
            return outcome.text

    engine = Reciting([[" A", " end"]])
    assert asyncio.run(first(engine)) == " end"
    assert 1 < drawn < 5000
    assert engine.open_texts == 0


def test_a_tool_that_cannot_be_built_is_an_error_before_any_text() -> None:
    async def start() -> None:
        settings = GenerateConfig(
            model=ModelConfig(path=MODEL),
            tools={"Calculate": ServedTool()},
        )
        async with Generator(settings, engine=Reciting([])):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError, match=r"^tool Calculate: no such tool"):
        asyncio.run(start())


def test_a_model_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    async def start() -> None:
        settings = GenerateConfig(model=ModelConfig(path=str(tmp_path / "nothing")))
        async with Generator(settings):
            raise AssertionError("it has started")

    with pytest.raises(ConfigError, match=r"no such model directory$"):
        asyncio.run(start())


def test_closing_a_stream_ends_its_text() -> None:
    async def first() -> None:
        async with Generator(config(), engine=(engine := Reciting([SUM]))) as generator:
            stream = generator.stream("The sum")
            await anext(stream)
            assert engine.open_texts == 1
            await stream.aclose()
            assert engine.open_texts == 0

    asyncio.run(first())
