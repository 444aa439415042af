"""Units that end the process of a stage: the run ends in a line about the right one."""

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from pipeline.attempts import Attempts
from pipeline.stages.deaths import BoundedDeaths
from pipeline.stages.execute import ExecuteStage
from pipeline.stages.failure import StageFailure
from tests.pipeline.demo_runs import DEMO
from tests.pipeline.stages.mortal import Died, Mortal
from tests.pipeline.stages.test_isolation import row, unit_of
from tools.base import ToolformerError


class Process(Mortal):
    """One life of the stage, that some units end."""

    def __init__(self, attempts: Attempts, lethal: str) -> None:
        super().__init__(attempts)
        self._deaths = BoundedDeaths("execute", self, life=self.life)
        self._lethal = lethal
        self.at_work: list[str] = []

    async def annotate(self, unit: str) -> str:
        async with self._deaths.at_work(unit, f"unit {unit} (rows 1 to 2)"):
            self.at_work.append(unit)
            await asyncio.sleep(0.001)
            if unit == self._lethal:
                self.die()
        return unit


async def repeated(lethal: str, units: str) -> tuple[list[Process], list[Any]]:
    """What becomes of the units, all in one process, which is started again when it dies."""
    attempts, processes = Attempts(), list[Process]()
    while True:
        processes.append(Process(attempts, lethal))
        tasks = [asyncio.create_task(processes[-1].annotate(unit)) for unit in units]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if not any(isinstance(task.exception(), Died) for task in done):
            return processes, await asyncio.gather(*tasks, return_exceptions=True)
        for task in others:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_nothing_is_alone_while_nothing_dies() -> None:
    (process,), answers = asyncio.run(repeated("", "abc"))
    assert answers == ["a", "b", "c"] and process.at_work == ["a", "b", "c"]


@pytest.mark.parametrize("units", ["x", "axb", "abx"])
def test_the_unit_that_kills_four_processes_is_named_and_no_other(units: str) -> None:
    processes, answers = asyncio.run(repeated("x", units))
    assert sum(process.dead for process in processes) == 4
    failed = dict(zip(units, answers, strict=True)).pop("x")
    assert isinstance(failed, ToolformerError)
    line = "execute: 4 processes died at work on unit x (rows 1 to 2): is it larger than the memory"
    assert str(failed).startswith(line)
    assert [a for a in answers if a is not failed] == [u for u in units if u != "x"]


def test_the_stage_that_asks_the_tools_names_the_unit_by_its_documents() -> None:
    attempts = Attempts()
    stage = ExecuteStage([], str(DEMO / "model"), None, 100, Mortal(attempts))
    unit = unit_of(row("note-1"), row("note-2"), row("note-3"))

    async def annotated() -> list[pa.Table]:
        return [answered async for answered in stage(unit)]

    (executed,) = asyncio.run(annotated())
    assert executed.drop_columns("trace").equals(unit.drop_columns("trace"))
    attempts.begin([("execute", "unit", "u")], "first")
    for life in ("second", "third", "fourth"):
        attempts.begin([("execute", "unit alone", "u")], life)
    with pytest.raises(StageFailure) as failure:
        asyncio.run(annotated())
    line = "execute: 4 processes died at work on unit u (documents note-1 to note-3): is it larger"
    assert str(failure.value.args[0]).startswith(line)
