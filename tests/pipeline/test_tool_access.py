"""Asking tools that raise, hang or die: the call alone fails, and the tool goes on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from pipeline.stages.tool_access import ToolAccess, ToolClient
from tools.actors import ToolActor
from tools.base import ContractError, ToolRequest, ToolResult

FACTORY = "tests.pipeline.breakable_tool:BreakableTool"


def ask(client: ToolClient, *inputs: str) -> list[ToolResult]:
    return asyncio.run(client.ask([ToolRequest(input=text) for text in inputs]))


def statuses(results: list[ToolResult]) -> list[str]:
    return [str(result.status) for result in results]


def in_process() -> ToolClient:
    return ToolClient(ToolAccess(name="Breakable", factory=FACTORY, options={}, timeout_s=60.0))


def test_a_call_that_raises_fails_alone() -> None:
    results = ask(in_process(), "one", "raise", "two")
    assert statuses(results) == ["ok", "failed", "ok"]
    assert results[1].error == "RuntimeError: told to"


def test_more_calls_than_a_batch_are_answered_in_order() -> None:
    inputs = [str(number) for number in range(100)]
    assert [result.result for result in ask(in_process(), *inputs)] == inputs


def test_a_result_that_is_no_text_stops_the_run_and_names_the_tool() -> None:
    with pytest.raises(ContractError, match=r"tool Breakable.*got a result of type int"):
        ask(in_process(), "number")


@pytest.fixture(scope="module")
def cluster(ray_directory: Path) -> Iterator[None]:
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, log_to_driver=False,
        _temp_dir=str(ray_directory),
    )  # fmt: skip
    yield
    ray.shutdown()


def hosted(timeout_s: float = 60.0) -> ToolClient:
    actor: Any = ToolActor.remote("Breakable", FACTORY, {})
    ray.get(actor.load.remote())
    return ToolClient(
        ToolAccess(
            name="Breakable", factory=FACTORY, options={}, timeout_s=timeout_s, actors=[actor]
        )
    )


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_calls_that_kill_the_process_fail_alone_however_many_there_are() -> None:
    client = hosted()
    results = ask(client, "one", "die", "two", "die", "three")
    assert statuses(results) == ["ok", "failed", "ok", "failed", "ok"]
    assert results[1].error == "the tool's process died of this call"
    assert statuses(ask(client, "die")) == ["failed"]
    assert statuses(ask(client, "four", "five")) == ["ok", "ok"]


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_a_call_that_hangs_times_out_and_frees_the_process() -> None:
    client = hosted(timeout_s=2.0)
    assert statuses(ask(client, "hang")) == ["timeout"]
    assert statuses(ask(client, "one")) == ["ok"]


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_waiting_for_a_busy_process_is_no_timeout() -> None:
    client = hosted(timeout_s=3.0)
    inputs = [f"wait {number}" for number in range(320)]  # 6.4 s in all, 0.64 s a batch
    assert set(statuses(ask(client, *inputs))) == {"ok"}
