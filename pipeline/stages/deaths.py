"""A bound on the processes of a stage that die of one unit, where nothing can be dropped for it.

Ray Data starts a process that died again and repeats its units for ever. All units that were at
work in it are suspects; each is then at work alone, so that only the culprit is counted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pipeline.attempts import Work
from pipeline.engines.lives import LIFE
from pipeline.stages.turns import Turns
from tools.base import ToolformerError

# Of a unit that is at work alone, after one beside others; some may be chance.
_DEATHS = 3


class BoundedDeaths:
    """For all units of one process of a stage: at most four processes die of the same."""

    def __init__(self, stage: str, dispatcher: Any, *, life: str = LIFE) -> None:
        """`dispatcher` keeps what was begun in which life of the stage; see Attempts."""
        self._stage, self._dispatcher, self._life = stage, dispatcher, life
        self._turns = Turns()

    @asynccontextmanager
    async def at_work(self, unit_id: str, what: str) -> AsyncIterator[None]:
        """The body is at work on a unit; `what` names the unit to the user.

        Raises:
            ToolformerError: one process after the other died of that.
        """
        beside: Work = (self._stage, "unit", unit_id)
        async with self._turns.beside_others():
            suspected = await self._begun(beside)
            if not suspected:
                try:
                    yield
                finally:
                    self._end(beside)
        if suspected:
            async with self._turns.alone():
                await self._bounded(unit_id, what)
                try:
                    yield
                finally:
                    self._end(beside, self._alone(unit_id))

    async def _bounded(self, unit_id: str, what: str) -> None:
        deaths = await self._begun(self._alone(unit_id))
        if deaths >= _DEATHS:
            raise ToolformerError(
                f"{self._stage}: {deaths + 1} processes died at work on {what}: is it larger than "
                "the memory? Finished units stay; the same command continues"
            )

    async def _begun(self, work: Work) -> int:
        """How many processes died of it before."""
        deaths: int
        (deaths,) = await self._dispatcher.begin.remote([work], self._life)
        return deaths

    def _end(self, *works: Work) -> None:
        self._dispatcher.end.remote(works)

    def _alone(self, unit_id: str) -> Work:
        return (self._stage, "unit alone", unit_id)
