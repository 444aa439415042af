"""The Calculator on record, that waits or dies at chosen documents: see moments.py."""

import re
from collections.abc import Sequence

from tests.pipeline.survival.moments import Moments
from tools.base import ToolRequest, ToolResult
from tools.calculator import Calculator


class KillingCalculator:
    """Answers as the Calculator does; `dies` are the documents whose calls end its process.

    One that is `down` fails every call.
    """

    name = "Calculator"
    version = "1"

    def __init__(self, *, directory: str, dies: Sequence[int] = (), down: bool = False) -> None:
        self._calculator, self._moments = Calculator(), Moments(directory)
        self._dies, self._down = dies, down

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        for request in requests:
            number = re.match(r"\d+", request.input)
            if number is not None:
                self._moments.at("tool", self._note(int(number[0])))
        if self._down:
            return [ToolResult.failed("it is down")] * len(requests)
        return self._calculator.run(requests)

    def _note(self, number: int) -> str:
        return f"Note {number} dies-tool" if number in self._dies else f"Note {number}"
