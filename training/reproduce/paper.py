"""The paper's own numbers, as data: training/reproduce/paper.yaml."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from pipeline.settings import Section

_FILE = Path(__file__).with_name("paper.yaml")


class PaperTask(Section):
    """A benchmark there: of GPT-J, GPT-J + CC, Toolformer (disabled) and Toolformer, in %."""

    table: int
    name: str
    scores: tuple[float, float, float, float]


class Paper(Section):
    """Tables by their rows, as printed; shares in %, None where there is no number."""

    table_2: Mapping[str, Mapping[str, int]]
    tasks: Mapping[str, PaperTask]
    table_8: Mapping[str, tuple[float, float, float]]
    table_9: Mapping[str, Mapping[int, tuple[float, float | None, float | None, float]]]
    table_10: tuple[tuple[str, float], ...]
    figure_4: str


@cache
def paper() -> Paper:
    """What the paper printed."""
    return Paper.model_validate(yaml.safe_load(_FILE.read_text(encoding="utf-8")))
