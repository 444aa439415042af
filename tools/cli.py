"""Commands that prepare what tools load: `python -m tools index-wikipedia`, `convert-atlas`."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tools.base import ToolformerError
from tools.wikisearch import bm25
from tools.wikisearch.corpus import ReadCounts, read_passages
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import prepare_place, save_index

app = typer.Typer(
    help="Prepare what tools load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_PASSAGES_PER_UPDATE = 1000


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
    ] = bm25.K1,
    b: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="BM25: how much length counts.")
    ] = bm25.B,
) -> None:
    """Cut pages into passages and write the BM25 index that WikiSearch loads."""
    prepare_place(out)
    counts = ReadCounts()
    console = Console(stderr=True)
    passages = _with_progress(read_passages(files, counts), files, counts, console)
    index = bm25.build_index(passages, k1=k1, b=b)
    with console.status("writing the index"):
        save_index(index, out)
    typer.echo(_summary(counts, out))


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


def _with_progress(
    passages: Iterable[Passage], files: list[Path], counts: ReadCounts, console: Console
) -> Iterator[Passage]:
    """`passages`, with a bar of the bytes read."""
    num_bytes = sum(path.stat().st_size for path in files if path.is_file())
    with Progress(
        TextColumn("reading"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}% {task.fields[passages]:,} passages"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("reading", total=num_bytes, passages=0)
        for number, passage in enumerate(passages):
            if number % _PASSAGES_PER_UPDATE == 0:
                progress.update(task, completed=counts.num_bytes, passages=counts.num_passages)
            yield passage
    console.print(f"scoring the terms of {counts.num_passages:,} passages")


def _summary(counts: ReadCounts, out: Path) -> str:
    skipped = ", ".join(f"{reason} {n:,}" for reason, n in sorted(counts.skipped.items())) or "none"
    return (
        f"{out}: {counts.num_passages:,} passages of {counts.num_pages:,} pages "
        f"({counts.num_lines:,} lines read; skipped: {skipped}; snippets under 5 words: "
        f"{counts.num_short_snippets:,})"
    )
