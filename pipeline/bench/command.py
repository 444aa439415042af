"""`python -m pipeline bench`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipeline.bench.shapes import parse_shape
from pipeline.commandline import stdout
from tools.base import ConfigError

if TYPE_CHECKING:
    from pipeline.bench.run import Settings

_QUICK_SHAPE = "32,2,2,128"

_Device = Literal["cpu", "cuda"]
_Dtype = Literal["float32", "bfloat16", "float16"]
_DOCUMENTS_HELP = "For the fast path (default 4, on a GPU 16); the baseline: 2."
_QUICK_HELP = "Small sizes: does it run? Figures mean nothing."
_SHAPE_HELP = (
    "demo, small, gpt-j-6b, or width,layers,heads,vocabulary "
    f"(default small, with --quick {_QUICK_SHAPE})."
)


def bench_command(
    json: Annotated[Path | None, typer.Option(help="Write everything to this file.")] = None,
    shape: Annotated[str | None, typer.Option(help=_SHAPE_HELP)] = None,
    device: Annotated[_Device, typer.Option(help="Where the model runs.")] = "cpu",
    dtype: Annotated[_Dtype, typer.Option(help="Of the weights.")] = "float32",
    documents: Annotated[int | None, typer.Option(min=1, help=_DOCUMENTS_HELP)] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of the CPU.")] = 1,
    seed: Annotated[int, typer.Option(help="Of weights, tokens and samples.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK_HELP)] = False,
    skip_naive: Annotated[
        bool, typer.Option("--skip-naive", help="Measure the fast path alone.")
    ] = False,
) -> None:
    """Count the work of an annotation, and time it against a naive path and the hardware."""
    chosen = parse_shape(shape or (_QUICK_SHAPE if quick else "small"))
    from pipeline.bench.run import Settings

    _check(device)
    default = 1 if quick else 4 if device == "cpu" else 16
    settings = Settings(
        shape=chosen,
        device=device,
        dtype=dtype,
        documents=default if documents is None else documents,
        threads=threads,
        seed=seed,
        quick=quick,
        skip_naive=skip_naive,
    )
    _run(settings, json)


def _check(device: str) -> None:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device: got cuda, expected cpu: torch sees no GPU here")


def _run(settings: "Settings", json: Path | None) -> None:
    from pipeline.bench.results import write_json
    from pipeline.bench.run import run_bench
    from pipeline.bench.tables import tables

    started = time.perf_counter()
    with stdout.status("bench") as status:
        results = run_bench(settings, lambda doing: status.update(f"bench: {doing}"))
    stdout.print(f"{time.perf_counter() - started:.0f} s in all")
    for table in tables(results):
        stdout.print(table)
    if json is not None:
        write_json(results, json)
        stdout.print(f"written: {json}", markup=False, highlight=False, soft_wrap=True)
