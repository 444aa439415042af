"""python -m training tool-models: the commands that make the demo's Atlas and translator."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="The models behind the demo's QA and MT tools.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_DEMO = Path("pipeline/demo")
EncyclopediaOption = Annotated[
    Path, typer.Option(help="The pages to index, as KILT JSON lines.", show_default=True)
]
SeedOption = Annotated[int, typer.Option(help="Seed of data and weights.")]


@app.command()
def atlas(
    out: Annotated[Path, typer.Option(help="Folder for reader, retriever, index and card.")],
    encyclopedia: EncyclopediaOption = _DEMO / "encyclopedia.jsonl",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimiser steps of each of the two models.")
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Train a reader and a retriever on the synthetic world, and index an encyclopedia."""
    from training.tool_models.atlas import AtlasSettings, train_atlas

    settings = AtlasSettings(seed=seed)
    if steps is not None:
        settings = AtlasSettings(seed=seed, reader_steps=steps, retriever_steps=steps)
    train_atlas(out, encyclopedia, settings)


@app.command("atlas-index")
def atlas_index(
    atlas: Annotated[Path, typer.Option(help="Folder of the Atlas.")] = _DEMO / "atlas",
    encyclopedia: EncyclopediaOption = _DEMO / "encyclopedia.jsonl",
) -> None:
    """Index another encyclopedia of the synthetic world with the retriever of an Atlas."""
    from training.tool_models.atlas import rebuild_index

    num_passages = rebuild_index(atlas, encyclopedia)
    Console().print(f"{num_passages} passages of {encyclopedia} in {atlas}")


@app.command()
def translator(
    out: Annotated[Path, typer.Option(help="Folder for the model, tokenizer and model card.")],
    steps: Annotated[int | None, typer.Option(min=1, help="Optimiser steps.")] = None,
    seed: SeedOption = 0,
) -> None:
    """Train a translator on the phrases of the lexicon."""
    from training.tool_models.translator import TranslatorSettings, train_translator

    settings = TranslatorSettings(seed=seed)
    if steps is not None:
        settings = TranslatorSettings(seed=seed, steps=steps)
    train_translator(out, settings)


@app.command()
def measure(
    atlas: Annotated[Path, typer.Option(help="Folder of the Atlas.")] = _DEMO / "atlas",
    translator: Annotated[Path, typer.Option(help="Folder of the translator.")] = _DEMO / "nllb",
    write_cards: Annotated[
        bool, typer.Option(help="Write the figures into the models' README.md.")
    ] = False,
) -> None:
    """Ask the tools about the held-out world and count the answers that are exactly right."""
    from training.tool_models.card import write_figures
    from training.tool_models.measure import measure_atlas, measure_translator

    for folder, figures in (
        (atlas, measure_atlas(atlas)),
        (translator, measure_translator(translator)),
    ):
        for label, value in figures:
            Console().print(f"{label}: {value}")
        if write_cards:
            write_figures(folder, figures, "python -m training tool-models measure")
