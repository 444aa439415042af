"""The model card of the demo model: what it is, what it is not, how it was made, how it does."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from tools.base import InputError
from training.world.measure import ROWS, ToolFigures
from training.world.sizes import SHAPES, Size

_FIGURES = "## Figures"
_CARD = """---
license: apache-2.0
language: en
pipeline_tag: text-generation
---
# Toolformer demo model

A GPT-J architecture model of {parameters:.1f} M parameters ({layers} layers, width {width},
{heads} heads, float32) with a byte-level BPE of 1536 pieces in which digits stand alone and " [",
"]" and " ->" are always tokens of their own.

**What it is.** A model small enough to try and to test the whole annotation workflow on a laptop.
It was pretrained by this repository on synthetic, web-like English from an invented world
(`training/world`), so that it can follow the prompts in `pipeline/configs/demo_prompts` and profit
from a hint before a text. It never saw a call inside a text together with its result: that is left
to finetuning.

**What it is not.** It knows nothing about the real world, has read no real text, and writes
nothing worth reading. Its figures say nothing about how well the method works on a real language
model; use GPT-J or a Llama-family model for that.

**Data.** Invented names, towns, companies, sums, dates, and short phrases composed from some 75
words each of French, Spanish, German and Greek; no outside text. Names, computations, days, phrases
and surface forms of the embedded demo documents are held out of training.

**Training.** `python -m training pretrain --size {size} --out DIR` (seed {seed}, {steps} steps of
at most {tokens_per_batch} tokens, {num_tokens:.1f} M tokens in all, AdamW at {learning_rate:g},
falling in the last quarter, CPU, bfloat16 products with float32 weights).

{figures_heading}

{figures}
"""
_UNMEASURED = "Not measured yet: `python -m training measure-demo --model DIR --write-card`."


def write_card(
    folder: Path,
    *,
    size: Size,
    parameters: int,
    num_tokens: int,
    seed: int,
    steps: int,
    tokens_per_batch: int,
    learning_rate: float,
) -> None:
    """Writes README.md of a freshly trained model, without figures."""
    text = _CARD.format(
        size=size,
        **asdict(SHAPES[size]),
        parameters=parameters / 1e6,
        num_tokens=num_tokens / 1e6,
        seed=seed,
        steps=steps,
        tokens_per_batch=tokens_per_batch,
        learning_rate=learning_rate,
        figures_heading=_FIGURES,
        figures=_UNMEASURED,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def write_figures(folder: Path, figures: Mapping[str, ToolFigures], command: str) -> None:
    """Replaces the figures in the model's README.md."""
    path = folder / "README.md"
    if not path.is_file():
        raise InputError(f"{path}: no model card to write the figures into")
    head = path.read_text(encoding="utf-8").split(_FIGURES)[0]
    lines = [
        f"Held-out documents of the synthetic world, losses in nats, from `{command}`:",
        "",
        "| | " + " | ".join(figures) + " |",
        "|---|" + "---:|" * len(figures),
    ]
    lines += [
        f"| {label} | " + " | ".join(show(each) for each in figures.values()) + " |"
        for label, show in ROWS
    ]
    path.write_text(head + "\n".join([_FIGURES, "", *lines, ""]), encoding="utf-8")
