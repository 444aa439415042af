"""What each tool came to in a unit: small counts in its done-mark, for those who watch a run."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


def tally_tools(scored: pa.Table) -> dict[str, ToolTally]:
    """By tool, what the calls of a unit (schemas.SCORED) came to."""
    calls = pc.list_flatten(scored.column("calls").combine_chunks())
    tool_C = calls.field("tool").to_numpy(zero_copy_only=False)
    executed_C = pc.is_valid(calls.field("status")).to_numpy(zero_copy_only=False)
    gain_C = calls.field("gain").to_numpy(zero_copy_only=False).astype(np.float64)
    tallies = {}
    for tool in sorted(set(tool_C)):
        mine_C = tool_C == tool
        floors, counts = np.unique(
            np.floor(gain_C[mine_C & (gain_C >= 0)] / _BIN).astype(int), return_counts=True
        )
        tallies[tool] = ToolTally(
            candidates=int(np.count_nonzero(mine_C)),
            executed=int(np.count_nonzero(mine_C & executed_C)),
            gains=dict(zip(floors.tolist(), counts.tolist(), strict=True)),
        )
    return tallies
