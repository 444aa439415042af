"""A model under evaluation, wherever it runs: it completes the prompts of a benchmark."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from training.benchmarks.example import Example
from training.generate.params import GenerationParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model made of a prompt: plain text without its calls, or why there is none.

    `line` is what else its line in the file of answers says: JSON values, "calls" among them where
    there may be any, each with its "tool" and "status".
    """

    text: str | None
    error: str | None = None
    line: Mapping[str, Any] = field(default_factory=dict)


class Model(Protocol):
    """A model that is ready to be asked."""

    def answers(
        self, asked: Sequence[tuple[Example, GenerationParams]]
    ) -> AsyncGenerator[tuple[int, Completion], None]:
        """What becomes of each prompt, with its number from 0; they are asked side by side.

        A prompt without a completion has an error in its place; what would befall every prompt
        is raised.

        Raises:
            ToolformerError: the model cannot go on.
        """
        ...
