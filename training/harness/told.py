"""What the results of lm-evaluation-harness say of texts and calls."""

import logging
from collections import Counter
from typing import Any

from training.generate.events import Generation

_log = logging.getLogger(__name__)


class Told:
    """Counts of texts, of calls by tool and status, and of prompts that were not used as given."""

    def __init__(self) -> None:
        self._texts = self._with_call = 0
        self._calls: Counter[tuple[str, str]] = Counter()
        self._prompts: Counter[str] = Counter()

    def add(self, generation: Generation) -> None:
        """Count a text."""
        self._texts += 1
        self._with_call += bool(generation.calls)
        self._calls.update(
            (ended.started.call.tool, str(ended.status)) for ended in generation.calls
        )

    def shortened(self, at_most: int) -> None:
        """Count a prompt of which only the end was used."""
        self._count_prompt("shortened", f"only its last {at_most} tokens, as many as fit")

    def refused(self, why: str) -> None:
        """Count a prompt that could not be used."""
        self._count_prompt("refused", f"its text is empty: {why}")

    def _count_prompt(self, what: str, how: str) -> None:
        if not self._prompts[what]:
            _log.warning("a prompt was %s, perhaps others too: %s", what, how)
        self._prompts[what] += 1

    def fields(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        calls: dict[str, dict[str, int]] = {}
        for (tool, status), number in sorted(self._calls.items()):
            calls.setdefault(tool, {})[status] = number
        return {
            "texts": self._texts,
            "texts_with_call": self._with_call,
            "prompts_shortened": self._prompts["shortened"],
            "prompts_refused": self._prompts["refused"],
            "calls": calls,
        }

    def __str__(self) -> str:
        ended = ", ".join(
            f"{tool} {number:,} {status}" for (tool, status), number in sorted(self._calls.items())
        )
        texts = f"{self._texts:,} texts, {self._with_call:,} with a call"
        return f"{texts}: {ended}" if ended else texts
