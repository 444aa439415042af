"""What each tool came to in a unit: small counts in its done-mark, for those who watch a run."""

import math
from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

_BIN = 0.25  # nats


class ToolTally(BaseModel):
    """Counts of one tool in a unit, or of a run by `add`.

    `gains` counts calls by the floor of gain / 0.25 nats; those that make nothing easier are not
    in it. tau_f may change between two commands, so it has no part in what is stored.
    """

    model_config = ConfigDict(extra="forbid")

    candidates: int = 0  # distinct calls at a position
    executed: int = 0
    gains: dict[int, int] = {}

    def add(self, other: "ToolTally") -> None:
        """Counts in all of `other`."""
        self.candidates += other.candidates
        self.executed += other.executed
        for floor, count in other.gains.items():
            self.gains[floor] = self.gains.get(floor, 0) + count

    def kept(self, tau_f: float) -> int:
        """Calls with a gain of at least `tau_f`: all of them where it is a multiple of 0.25,
        else those of the next multiple.
        """
        return sum(count for floor, count in self.gains.items() if floor * _BIN >= tau_f)


def tally_of(candidates: int, executed: int, gains: Iterable[float]) -> ToolTally:
    """The counts of a tool with these gains, in nats."""
    floors = Counter(math.floor(gain / _BIN) for gain in gains if gain >= 0)
    return ToolTally(candidates=candidates, executed=executed, gains=dict(sorted(floors.items())))
