"""The texts of several prompts, generated side by side."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from training.generate.events import Event
from training.generate.generator import Generator
from training.generate.params import GenerationParams


async def side_by_side(
    generator: Generator, prompts: Sequence[str], params: Sequence[GenerationParams]
) -> AsyncGenerator[tuple[int, Event], None]:
    """The events of all prompts as they come, each with the number of its prompt.

    There are `params` for each. The first error of any ends all; closing it does too.

    Raises:
        InputError: before any event; a prompt is no text, or too long for the model.
    """
    streams = [generator.stream(*each) for each in zip(prompts, params, strict=True)]
    coming: asyncio.Queue[tuple[int, Event] | Exception | None] = asyncio.Queue()

    async def write(index: int, stream: AsyncGenerator[Event, None]) -> None:
        try:
            async with aclosing(stream) as events:
                async for event in events:
                    coming.put_nowait((index, event))
        except Exception as error:  # raised where it is waited for
            coming.put_nowait(error)
        else:
            coming.put_nowait(None)

    writing = [asyncio.create_task(write(*each)) for each in enumerate(streams)]
    try:
        num_left = len(writing)
        while num_left:
            event = await coming.get()
            if isinstance(event, Exception):
                raise event
            if event is None:
                num_left -= 1
            else:
                yield event
    finally:
        for task in writing:
            task.cancel()
        await asyncio.gather(*writing, return_exceptions=True)
