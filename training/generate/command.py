"""python -m training generate: texts with live tools, in the terminal or for a file of prompts."""

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipeline.commandline import stdout
from pipeline.settings import describe
from tools.base import ConfigError, ToolformerError
from training.generate.batch import Batch, Summary, line_of, read_prompts
from training.generate.config import GenerateConfig, load_generate_config
from training.generate.growing_file import growing_file
from training.generate.params import GenerationParams
from training.generate.render import show

Result = TypeVar("Result")


def generate_command(
    config: Annotated[Path, typer.Argument(help="A configuration of a model with tools (YAML).")],
    prompts: Annotated[list[str] | None, typer.Argument(help="Texts to go on with.")] = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Prompts: a .jsonl or .txt file, or - (one in each line)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --input: a line of JSON for each.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Another model: a directory, or a name on the Hub.")
    ] = None,
    api_top_k: Annotated[
        int | None, typer.Option(help="Call where ' [' is among so many likeliest tokens.")
    ] = None,
    max_calls: Annotated[int | None, typer.Option(help="Calls in one text.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="No calls at all.")] = False,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens of plain text.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.")] = None,
    top_p: Annotated[float | None, typer.Option(help="With a temperature.")] = None,
    seed: Annotated[int | None, typer.Option(help="With a temperature.")] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="The text ends before it; may be given again. $'\\n' is a line break."),
    ] = None,
    date: Annotated[
        dt.datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Today, for the Calendar.", metavar="YYYY-MM-DD"),
    ] = None,
    interactive_search: Annotated[
        bool,
        typer.Option("--interactive-search", help="The same search again: the next passages."),
    ] = False,
    address: Annotated[
        str | None, typer.Option(help="Tools' actors on this Ray cluster (host:port or auto).")
    ] = None,
) -> None:
    """Generate text; where the model calls a tool, its result is inserted."""
    if disabled and api_top_k is not None:
        raise ConfigError("--disabled and --api-top-k exclude each other")
    settings = load_generate_config(config, model=model)
    params = _params(
        settings.decoding,
        api_top_k=0 if disabled else api_top_k,
        max_calls=max_calls,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        stop=stop or None,
        date=None if date is None else date.date(),
        interactive_search=interactive_search or None,
    )
    if prompts and input_file is None and out is None:
        _until_interrupted(_show_all(settings, address, prompts, params), "interrupted")
    elif input_file is not None and out is not None and not prompts:
        batch = Batch(config=settings, prompts=read_prompts(input_file), params=params)
        summary = _until_interrupted(
            _generate_all(batch, address, out), "interrupted; the same command goes on"
        )
        told = f"{out}: {summary}"
        stdout.print(told, markup=False, highlight=False, soft_wrap=True)
    else:
        raise ConfigError("expected prompts, or both --input and --out")


def _params(defaults: GenerationParams, **changes: object) -> GenerationParams:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return GenerationParams.model_validate(defaults.model_dump() | given)
    except ValidationError as error:
        raise ConfigError(describe(error)) from None


def _until_interrupted(work: Coroutine[Any, Any, Result], otherwise: str) -> Result:
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise ToolformerError(otherwise) from None


# What loads a model is imported where one is loaded: every command of this room imports this file.


async def _show_all(
    config: GenerateConfig, address: str | None, prompts: Sequence[str], params: GenerationParams
) -> None:
    from training.generate.generator import Generator

    async with Generator(config, address=address) as generator:
        for prompt in prompts:
            await show(prompt, generator.stream(prompt, params), stdout)


async def _generate_all(batch: Batch, address: str | None, out: Path) -> Summary:
    from training.generate.generator import Generator

    with growing_file(out, batch.identity()) as file:
        summary = Summary()
        date = batch.params.date or dt.datetime.now(dt.UTC).date()
        for line in file.earlier():
            summary.add(line)
            date = dt.date.fromisoformat(line["date"])  # it goes on as on the day it was begun
        left = batch.prompts[len(summary) :]
        params = batch.params.model_copy(update={"date": date})
        async with (
            Generator(batch.config, address=address) as generator,
            aclosing(
                generator.generate_all((each.text, each.params(params)) for each in left)
            ) as texts,
        ):
            with _bar(len(batch.prompts), len(summary)) as on_finished:
                prompts = iter(left)
                async for outcome in texts:
                    line = line_of(next(prompts), outcome, date)
                    file.add(line)
                    summary.add(line)
                    on_finished()
    return summary


@contextmanager
def _bar(num_prompts: int, finished: int) -> Iterator[Callable[[], None]]:
    columns = (
        TextColumn("[bold]generate"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("texts"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stdout) as progress:
        task = progress.add_task("generate", total=num_prompts, completed=finished)
        yield lambda: progress.advance(task)
