"""Commands that prepare what tools load: `python -m tools index-wikipedia`, `convert-atlas`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.base import ToolformerError
from tools.wikisearch import build, index, lucene_build

app = typer.Typer(
    help="Prepare what tools load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:
    """Without it Typer would drop the name of the only command."""


@app.command("index-wikipedia")
def index_wikipedia(
    files: Annotated[
        list[Path], typer.Argument(help="KILT or DPR JSON lines, plain or gzip.", metavar="FILE...")
    ],
    out: Annotated[Path, typer.Option(help="New directory for the index.")],
    k1: Annotated[
        float, typer.Option(min=0.0, help="BM25: how fast a repeated term saturates.")
    ] = index.K1,
    b: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="BM25: how much length counts.")
    ] = index.B,
    backend: Annotated[
        build.Backend,
        typer.Option(help="auto: memory up to about 2 million passages, else lucene (Java)."),
    ] = build.Backend.AUTO,
    java_heap_mb: Annotated[
        int, typer.Option(min=64, help="Heap of Lucene's indexing, in MB.")
    ] = lucene_build.HEAP_MB,
) -> None:
    """Cut pages into passages and write the BM25 index that WikiSearch loads."""
    typer.echo(
        build.build(
            files,
            out,
            backend=backend,
            k1=k1,
            b=b,
            java_heap_mb=java_heap_mb,
            console=Console(stderr=True, emoji=False),
        )
    )


@app.command("convert-atlas")
def convert_atlas(
    checkpoint: Annotated[Path, typer.Option(help="model.pth.tar of an Atlas model.")],
    index: Annotated[Path, typer.Option(help="Directory of passages.*.pt and embeddings.*.pt.")],
    reader_tokenizer: Annotated[Path, typer.Option(help="spiece.model of T5.")],
    retriever_vocab: Annotated[Path, typer.Option(help="vocab.txt of bert-base-uncased.")],
    out: Annotated[Path, typer.Option(help="New directory for what QA loads.")],
    num_attention_heads: Annotated[
        int | None, typer.Option(min=1, help="Of the retriever. [default: hidden size / 64]")
    ] = None,
    trust_checkpoint: Annotated[
        bool, typer.Option("--trust-checkpoint", help="Load one that can run its author's code.")
    ] = False,
) -> None:
    """Turn the published files of an Atlas model into a directory that QA loads."""
    from tools.atlas.command import convert  # torch, which the other commands do without

    typer.echo(
        convert(
            checkpoint=checkpoint,
            index=index,
            reader_tokenizer=reader_tokenizer,
            retriever_vocab=retriever_vocab,
            out=out,
            trust_checkpoint=trust_checkpoint,
            num_attention_heads=num_attention_heads,
        )
    )


def main() -> None:
    """Run the command line; an error of ours is one line and exit code 1."""
    try:
        app()
    except ToolformerError as error:
        print("error:", " ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(1) from None
