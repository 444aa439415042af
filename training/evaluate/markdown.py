"""results.md: the tables and plots of an evaluation, to read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.markdown import markdown_template
from training.evaluate.plots import Plot
from training.evaluate.result_table import ResultTable

_TEMPLATE = Path(__file__).with_name("results.md.j2")
_MARKUP = re.compile(r"([\\`*_|<>\[\]#])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table, then those that explain it, and plots of them."""

    tables: tuple[ResultTable, ...]
    plots: tuple[Plot, ...]

    @property
    def title(self) -> str:
        return self.tables[0].title


class Model(Protocol):
    """What a reader wants to know of a model."""

    @property
    def parameters(self) -> int | None: ...

    @property
    def calls(self) -> bool: ...


def results_markdown(
    sections: Sequence[Section], models: Mapping[str, Model], *, seed: int, json: str, plots: str
) -> str:
    """The whole file: `json` is the file with all numbers beside it, `plots` the folder."""
    return markdown_template(_TEMPLATE).render(
        sections=sections, models=models, seed=seed, json=json, plots=plots, cell=_escaped
    )


def _escaped(text: str) -> str:
    """`text` as it is, in one line, wherever it stands in Markdown."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
