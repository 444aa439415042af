"""How every command of this system ends: one clear line and a non-zero exit, or success."""

import os
import sys

import typer
from rich.console import Console

from tools.base import ToolformerError

stdout = Console()
stderr = Console(stderr=True, soft_wrap=True, highlight=False)

_INTERRUPTED = 130


def run_app(app: typer.Typer) -> None:
    """Run a command line; errors of this system become one line on standard error."""
    try:
        app()
    except ToolformerError as error:
        stderr.print(f"[bold red]error:[/] {' '.join(str(error).split())}", markup=True)
        sys.exit(1)
    except KeyboardInterrupt:
        stderr.print("interrupted; what is finished stays, the same command continues")
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, say nothing more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
