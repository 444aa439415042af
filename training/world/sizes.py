"""The sizes that models of the demo's world are trained in."""

from dataclasses import dataclass
from enum import StrEnum


class Size(StrEnum):
    """The sizes a model of the demo is trained in; the committed one is LARGE."""

    TINY = "tiny"
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a size is: layers, the width of the residual stream, heads of a layer."""

    layers: int
    width: int
    heads: int


# Parameters: layers * 12 * width^2, and two embeddings of 1536 * width.
SHAPES = {
    Size.TINY: Shape(2, 48, 3),  # 0.06 M + 0.15 M
    Size.SMALL: Shape(3, 96, 3),  # 0.33 M + 0.29 M
    Size.MEDIUM: Shape(4, 128, 4),  # 0.79 M + 0.39 M
    Size.LARGE: Shape(4, 192, 6),  # 1.77 M + 0.59 M
}
