"""Calls that end the process of a stage: a poison call is found, its neighbours are answered."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pipeline.attempts import Attempts
from pipeline.stages.careful import DIED_OF_CALL, CarefulCalls
from tests.pipeline.stages.mortal import Died, Mortal
from tools.actors import Served
from tools.base import ToolRequest, ToolResult, ToolStatus


class Process(Mortal):
    """One life of the stage; its tools end it when they are asked something lethal."""

    def __init__(self, attempts: Attempts, lethal: Sequence[str]) -> None:
        super().__init__(attempts)
        self._careful, self._lethal = CarefulCalls(self, life=self.life), lethal
        self.batches: list[list[str]] = []
        self.at_work: set[str] = set()

    async def ask(self, tool: str, inputs: Sequence[str]) -> list[str]:
        requests = [ToolRequest(input=text) for text in inputs]
        served = await self._careful.answer(tool, requests, self._run)
        return [answer.result or str(answer.error) for answer in served.results]

    async def _run(self, requests: Sequence[ToolRequest]) -> Served:
        inputs = [request.input for request in requests]
        self.batches.append(inputs)
        self.at_work.update(inputs)
        await asyncio.sleep(0.001)
        if set(inputs) & set(self._lethal):
            self.die()
        self.at_work.difference_update(inputs)
        return Served([ToolResult(status=ToolStatus.OK, result=text) for text in inputs], 0.5)


def lives(lethal: Sequence[str], asked: dict[str, list[str]]) -> tuple[list[Process], list[Any]]:
    """What all tools answer at last, and the processes that it took."""

    async def survive() -> tuple[list[Process], list[Any]]:
        attempts, processes = Attempts(), list[Process]()
        while True:
            processes.append(Process(attempts, lethal))
            tasks = [
                asyncio.create_task(processes[-1].ask(tool, inputs))
                for tool, inputs in asked.items()
            ]
            try:
                return processes, await asyncio.gather(*tasks)
            except Died:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(survive())


def test_nothing_is_set_apart_while_nothing_dies() -> None:
    processes, answers = lives([], {"A": ["1", "2"], "B": ["3"]})
    assert answers == [["1", "2"], ["3"]]
    assert [sorted(process.batches) for process in processes] == [[["1", "2"], ["3"]]]


def test_the_lethal_call_fails_and_its_neighbours_are_answered() -> None:
    processes, answers = lives(["2"], {"A": ["1", "2", "3"]})
    assert answers == [["1", DIED_OF_CALL, "3"]]
    # "1" is no suspect once it was answered alone.
    assert [process.batches for process in processes] == [
        [["1", "2", "3"]],
        [["1"], ["2"]],
        [["1"], ["3"]],
    ]


def test_two_tools_and_two_lethal_calls_take_one_death_each_and_one_before() -> None:
    processes, answers = lives(["2", "4"], {"A": ["1", "2"], "B": ["3", "4", "5"]})
    assert answers == [["1", DIED_OF_CALL], ["3", DIED_OF_CALL, "5"]]
    assert len(processes) - 1 == 2 + 1


@pytest.mark.parametrize("lethal", [["2"], ["2", "5"]])
def test_a_suspect_is_at_work_alone(lethal: list[str]) -> None:
    processes, _ = lives(lethal, {"A": ["1", "2"], "B": ["3"], "C": ["4", "5"]})
    for process in processes[1:]:
        if len(process.batches[-1]) == 1 and process.batches[-1][0] in lethal:
            assert process.at_work == set(process.batches[-1])
