"""`python -m tools convert-atlas` at a terminal: a bar while it works, one line at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tools.atlas.convert import Progress, convert_atlas


def convert(
    *,
    checkpoint: Path,
    index: Path,
    reader_tokenizer: Path,
    retriever_vocab: Path,
    out: Path,
    trust_checkpoint: bool,
    num_attention_heads: int | None,
) -> str:
    """Convert with a progress bar; what was written, in one line."""
    with _progress_bar() as progress:
        meta = convert_atlas(
            checkpoint=checkpoint,
            index=index,
            reader_tokenizer=reader_tokenizer,
            retriever_vocab=retriever_vocab,
            out=out,
            trust_checkpoint=trust_checkpoint,
            num_attention_heads=num_attention_heads,
            progress=progress,
        )
    num_bytes = sum(file.num_bytes for file in meta.files.values())
    return (
        f"{out}: Atlas of step {meta.step:,}, reader of {meta.reader_parameters:,} parameters, "
        f"{meta.num_passages:,} passages of {meta.embedding_size} dimensions, {num_bytes:,} bytes"
    )


@contextmanager
def _progress_bar() -> Iterator[Progress]:
    console = Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("reading the checkpoint", total=1.0)

        def update(what: str, done: float) -> None:
            bar.update(task, description=what, completed=done)

        yield update
