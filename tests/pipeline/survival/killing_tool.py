"""The Calculator on record, that waits or dies at chosen documents: see moments.py."""

import re
from collections.abc import Sequence

from tests.pipeline.survival.moments import Moments
from tools.base import ToolRequest, ToolResult
from tools.calculator import Calculator


class KillingCalculator:
    """Answers as the Calculator does; `dies` are the documents whose calls end its process."""

    name = "Calculator"
    version = "1"

    def __init__(self, *, directory: str, dies: Sequence[int] = ()) -> None:
        self._calculator, self._moments, self._dies = Calculator(), Moments(directory), dies

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        for request in requests:
            number = re.match(r"\d+", request.input)
            if number is not None:
                self._moments.at("tool", self._note(int(number[0])))
        return self._calculator.run(requests)

    def _note(self, number: int) -> str:
        return f"Note {number} dies-tool" if number in self._dies else f"Note {number}"
