"""The command `chat-export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from upath import UPath

from pipeline.commandline import stdout
from tools.places import place
from training.chat_export.options import DEFAULT_INSTRUCTION, ShardFormat

if TYPE_CHECKING:
    from training.chat_export.export import Exported


def chat_export_command(
    run: Annotated[UPath, typer.Argument(parser=place, help="A built run.", metavar="RUN")],
    out: Annotated[Path, typer.Option(help="A new directory for the conversations.")],
    instruction: Annotated[
        str, typer.Option(help="What the user asks for, above the beginning of the document.")
    ] = DEFAULT_INSTRUCTION,
    shard_format: Annotated[
        ShardFormat, typer.Option("--format", help="Of the files.")
    ] = ShardFormat.PARQUET,
    describe: Annotated[
        list[str] | None,
        typer.Option(metavar="TOOL=TEXT", help="What a tool does, for the model. Repeatable."),
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="As the Hub names it: cc-by-4.0, odc-by, ...")
    ] = None,
) -> None:
    """Write C* as conversations with tool calls, to train chat models on."""
    from pipeline.rundir import RunDir
    from training.chat_export.export import export_chats

    exported = export_chats(
        RunDir(run),
        out,
        instruction=instruction,
        shard_format=shard_format,
        described=dict(_description(each) for each in describe or ()),
        license_name=license_name,
    )
    stdout.print(_table(exported))
    stdout.print(f"{out}: README.md says how to train on it", markup=False, soft_wrap=True)


def _description(option: str) -> tuple[str, str]:
    tool, _, text = option.partition("=")
    if not tool or not text.strip():
        raise typer.BadParameter(f"{option!r} is not TOOL=TEXT")
    return tool, " ".join(text.split())


def _table(exported: "Exported") -> Table:
    table = Table("", "number")
    table.columns[1].justify = "right"
    table.add_row("documents", f"{exported.documents:,}")
    table.add_row("messages", f"{exported.messages:,}")
    for tool, calls in exported.calls.items():
        table.add_row(f"calls of {tool}", f"{calls:,}")
    return table
