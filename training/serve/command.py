"""python -m training serve: a generator behind OpenAI's completions endpoint."""

import asyncio
import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commandline import stdout
from tools.base import ConfigError, ToolformerError
from training.generate.config import load_generate_config
from training.serve.limits import Limits

_DEFAULTS = Limits()
_KEY_HELP = "The key is in this file alone, or in the variable TOOLFORMER_API_KEY."


def serve_command(
    config: Annotated[Path, typer.Argument(help="A configuration of a model with tools (YAML).")],
    model: Annotated[
        str | None, typer.Option(help="Another model: a directory, or a name on the Hub.")
    ] = None,
    served_model_name: Annotated[
        str | None, typer.Option(help="What requests call it; else its directory's name.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; any but this machine alone needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: one that is free.")] = 8000,
    api_key_file: Annotated[Path | None, typer.Option(help=_KEY_HELP)] = None,
    max_body_bytes: Annotated[
        int, typer.Option(min=1, help="Of a request; 413 beyond.")
    ] = _DEFAULTS.max_body_bytes,
    max_new_tokens: Annotated[
        int, typer.Option(min=1, help="That a request may ask for; 400 beyond.")
    ] = _DEFAULTS.max_new_tokens,
    max_prompts: Annotated[
        int, typer.Option(min=1, help="In one request; 400 beyond.")
    ] = _DEFAULTS.max_prompts,
    max_running: Annotated[
        int, typer.Option(min=1, help="Requests that generate side by side.")
    ] = _DEFAULTS.max_running,
    max_waiting: Annotated[
        int, typer.Option(min=0, help="Requests that wait for their turn; 429 beyond.")
    ] = _DEFAULTS.max_waiting,
    max_connections: Annotated[
        int, typer.Option(min=1, help="Open ones, idle or not; 429 beyond.")
    ] = _DEFAULTS.max_connections,
    timeout_s: Annotated[
        float, typer.Option(min=0.1, help="For a request, its waiting included; 504 beyond.")
    ] = _DEFAULTS.timeout_s,
    grace_s: Annotated[
        float, typer.Option(min=0, help="For what runs when the server is told to end.")
    ] = 30.0,
    address: Annotated[
        str | None, typer.Option(help="Tools' actors on this Ray cluster (host:port or auto).")
    ] = None,
) -> None:
    """Serve OpenAI's completions endpoint; tool calls are made inside."""
    for package in ("fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise ConfigError(f"serve: needs {package}: pip install '.[serve]'")
    settings = load_generate_config(config, model=model)
    limits = Limits(
        max_body_bytes=max_body_bytes,
        max_new_tokens=max_new_tokens,
        max_prompts=max_prompts,
        max_running=max_running,
        max_waiting=max_waiting,
        max_connections=max_connections,
        timeout_s=timeout_s,
    )
    if settings.decoding.max_new_tokens > max_new_tokens:
        raise ConfigError(
            f"{config}: decoding.max_new_tokens is {settings.decoding.max_new_tokens}, and a "
            f"request may not ask for so many: --max-new-tokens {max_new_tokens}"
        )
    from training.serve.keys import find_key
    from training.serve.listening import bind
    from training.serve.server import serve

    key = find_key(api_key_file)
    with bind(host, port, key) as bound:
        try:
            asyncio.run(
                serve(
                    settings,
                    bound,
                    model=served_model_name or Path(settings.model.path).name,
                    limits=limits,
                    key=key,
                    grace_s=grace_s,
                    address=address,
                    say=_say,
                )
            )
        except asyncio.CancelledError:
            raise ToolformerError("told to end before all was loaded") from None
    _say("ended")


def _say(line: str) -> None:
    stdout.print(line, markup=False, highlight=False, soft_wrap=True)
