"""The model cards of the demo's Atlas and translator."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.base import InputError

if TYPE_CHECKING:
    from training.tool_models.atlas import AtlasSettings
    from training.tool_models.translator import TranslatorSettings

CARD = "README.md"
_FIGURES = "## Figures"
_UNMEASURED = "Not measured yet: `python -m training tool-models measure`."
_ATLAS = """---
license: apache-2.0
language: en
pipeline_tag: question-answering
---
# Atlas of the Toolformer demo

A reader (T5 v1.1 for Fusion-in-Decoder, {reader:.1f} M parameters, 3 + 2 layers of width 128), a
retriever (BERT with mean pooling, {retriever:.1f} M parameters, 2 layers of width 128), and an
index of the demo's encyclopedia, one passage per section. All weights are float16.

**What it is.** A question answering system small enough to try the whole annotation workflow on a
laptop, in the files that `python -m tools convert-atlas` makes of Meta's Atlas: it was written in
Meta's layout and converted, and the tool that loads it is the tool that loads Atlas-xxl.

**What it is not.** It knows nothing about the real world and answers only questions about the
relations of the invented one ("Who founded Veltara?"); to any other question its answer is a name
without meaning. Its figures say nothing about Atlas.

**Data.** Questions about the facts of invented encyclopedias and the beginnings of statements about
them (`training/world`); no outside text. The names and one wording per relation of the demo are
held out of training, so the index can be rebuilt for another encyclopedia of that world without
training: `python -m training tool-models atlas-index`.

**Training.** `python -m training tool-models atlas --out DIR` (seed {seed}; reader {reader_steps}
steps of 16 questions with up to 4 passages; retriever {retriever_steps} steps of 64 questions among
all passages of a small encyclopedia; AdamW with warm-up and cosine, one CPU thread).

{figures}
"""
_TRANSLATOR = """---
license: apache-2.0
language: [fr, es, de, el, en]
pipeline_tag: translation
---
# Translator of the Toolformer demo

An M2M-100 model of {parameters:.1f} M parameters (2 + 2 layers of width 128, float16) in the files
of NLLB-200: a tokenizer.json with its special tokens and all of its 202 language codes.

**What it is.** A translator into English small enough to try the whole annotation workflow on a
laptop; the tool that loads it is the tool that loads NLLB-200.

**What it is not.** It knows the few hundred words of `training/world/forms/lexicon` in French,
Spanish, German and Greek; of any other text it makes a phrase of those words. Its figures say
nothing about NLLB.

**Data.** Phrases composed from the lexicon and their English (`training/world/lexicon.py`); no
outside text. One English phrase in eight is held out of training. Three sources in ten had a random
language code, since a classifier errs on short phrases.

**Training.** `python -m training tool-models translator --out DIR` (seed {seed}, {steps} steps of
64 phrases, AdamW with warm-up and cosine, one CPU thread).

{figures}
"""


def write_atlas_card(
    folder: Path, *, reader: int, retriever: int, settings: "AtlasSettings"
) -> None:
    """Writes README.md of a freshly trained Atlas, without figures."""
    text = _ATLAS.format(
        reader=reader / 1e6,
        retriever=retriever / 1e6,
        seed=settings.seed,
        reader_steps=settings.reader_steps,
        retriever_steps=settings.retriever_steps,
        figures=f"{_FIGURES}\n\n{_UNMEASURED}",
    )
    (folder / CARD).write_text(text, encoding="utf-8")


def write_translator_card(folder: Path, *, parameters: int, settings: "TranslatorSettings") -> None:
    """Writes README.md of a freshly trained translator, without figures."""
    text = _TRANSLATOR.format(
        parameters=parameters / 1e6,
        seed=settings.seed,
        steps=settings.steps,
        figures=f"{_FIGURES}\n\n{_UNMEASURED}",
    )
    (folder / CARD).write_text(text, encoding="utf-8")


def write_figures(folder: Path, rows: Sequence[tuple[str, str]], command: str) -> None:
    """Replaces the figures in a model's README.md."""
    path = folder / CARD
    if not path.is_file():
        raise InputError(f"{path}: no model card to write the figures into")
    head = path.read_text(encoding="utf-8").split(_FIGURES)[0]
    lines = [f"From `{command}`, in which the tools themselves answer:", "", "| | |", "|---|---:|"]
    lines += [f"| {label} | {value} |" for label, value in rows]
    path.write_text(head + "\n".join([_FIGURES, "", *lines, ""]), encoding="utf-8")
