"""Files that other programs read: YAML of plain values, in the order given."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
import yaml

from tools.atomic import write_text_atomically

# Of the command lines that write such files.
Cluster: TypeAlias = Annotated[
    Path, typer.Argument(help="A cluster configuration (YAML).", metavar="CLUSTER.yaml")
]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(help="A file to write; the terminal when not given.")
]


def write(text: str, out: Path | None, *next_steps: str) -> None:
    """`text` to a file or the terminal; what to do with the file, {out}, is told beside it."""
    if out is None:
        typer.echo(text, nl=False)
        return
    write_text_atomically(out, text)
    typer.echo(f"{out} is written; next:", err=True)
    for step in next_steps:
        typer.echo("  " + step.replace("{out}", shlex.quote(str(out))), err=True)


def to_yaml(documents: Sequence[dict[str, Any]]) -> str:
    """`documents` as a stream of YAML; texts of several lines stay readable."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=10_000,  # a command stays on its line
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal parts are written out: not every reader follows anchors."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Other readers of YAML take 1e3, 0o7 and y for something else than text.
    plain = len(text) > 1 and (text[0].isalpha() or text[0] in "/$")
    style = "|" if "\n" in text else None if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
