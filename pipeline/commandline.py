"""How every command of this system ends: one clear line and a non-zero exit, or success."""

import sys

import typer
from rich.console import Console
from rich.markup import escape

from tools.base import ToolformerError, one_line

# No emoji: in a name such as package.module:X: they would stand where the name does.
stdout = Console(emoji=False)
stderr = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)

_INTERRUPTED = 130


def run_app(app: typer.Typer) -> None:
    """Run a command line; errors of this system become one line on standard error."""
    try:
        app()
    except ToolformerError as error:
        stderr.print(f"[bold red]error:[/] {escape(one_line(error))}")
        sys.exit(1)
    except SystemExit as leaving:
        # Typer makes this of Ctrl-C, without a word.
        if leaving.code == _INTERRUPTED:
            stderr.print("interrupted; what is finished stays, the same command continues")
        raise
