"""Asking tools that raise, hang or die: the call alone fails, and the tool goes on."""

import asyncio
import datetime as dt
import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import ray

from pipeline.config import RunConfig
from pipeline.pools import tell_of_unplaced
from pipeline.resources import shortage
from pipeline.stages.tool_access import ToolAccess, ToolClient
from tools.actors import HostHealth, ToolActor, health_of
from tools.base import ContractError, ToolRequest, ToolResult
from tools.usage import ToolUsage

FACTORY = "tests.pipeline.breakable_tool:BreakableTool"


def ask(client: ToolClient, *inputs: str, usage: ToolUsage | None = None) -> list[ToolResult]:
    return asyncio.run(client.ask([ToolRequest(input=text) for text in inputs], usage))


def ask_at_once(client: ToolClient, *units: Sequence[str]) -> list[ToolUsage]:
    """What each of several units used that ask at the same time; all are answered "ok"."""
    usages = [ToolUsage() for _ in units]

    async def asked() -> None:
        await asyncio.gather(
            *(
                client.ask([ToolRequest(input=text) for text in unit], usage)
                for unit, usage in zip(units, usages, strict=True)
            )
        )

    asyncio.run(asked())
    for unit, usage in zip(units, usages, strict=True):
        assert usage.statuses == {"ok": len(set(unit))}
    return usages


def statuses(results: list[ToolResult]) -> list[str]:
    return [str(result.status) for result in results]


def in_process(factory: str = FACTORY, **settings: Any) -> ToolClient:
    settings.setdefault("options", {})
    return ToolClient(ToolAccess(name="Breakable", factory=factory, timeout_s=60.0, **settings))


def batches(log: Path) -> list[list[str]]:
    """The inputs of every batch the tool was given, in order."""
    if not log.exists():
        return []
    return [json.loads(line)[1] for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("text", "error"),
    [("raise", "RuntimeError"), ("exit", "SystemExit"), ("cancel", "CancelledError")],
)
def test_a_call_that_raises_fails_alone(text: str, error: str) -> None:
    results = ask(in_process(), "one", text, "two")
    assert statuses(results) == ["ok", "failed", "ok"]
    assert results[1].error == f"{error}: told to"


def test_more_calls_than_a_batch_are_answered_in_order(tmp_path: Path) -> None:
    inputs = [str(number) for number in range(100)]
    client = in_process(options={"log": str(tmp_path / "log")})
    assert [result.result for result in ask(client, *inputs)] == inputs
    assert [len(batch) for batch in batches(tmp_path / "log")] == [32, 32, 32, 4]


def test_a_batch_has_the_configured_size(tmp_path: Path) -> None:
    client = in_process(options={"log": str(tmp_path / "log")}, batch_size=3)
    ask(client, *"abcdefg")
    assert batches(tmp_path / "log") == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("number", "a result of type int"),
        ("error object", "an error of type ValueError"),
        ("status text", "a status of type str"),
    ],
)
def test_a_field_of_another_type_stops_the_run_and_names_the_tool(text: str, got: str) -> None:
    with pytest.raises(ContractError, match=f"tool Breakable.*got {got}"):
        ask(in_process(), text)


def test_units_share_batches_while_the_tool_is_busy(tmp_path: Path) -> None:
    client = in_process(options={"log": str(tmp_path / "log")}, batch_size=4)
    usages = ask_at_once(client, ["slow"], ["a", "b"], ["c"], ["d", "e"])
    assert batches(tmp_path / "log") == [["slow"], ["a", "b", "c", "d"], ["e"]]
    assert [usage.batches for usage in usages] == [1, 1, 0, 1]  # of the first call in each
    assert sum(usage.asked for usage in usages) == 6


def test_equal_requests_of_units_are_asked_once(tmp_path: Path) -> None:
    client = in_process(options={"log": str(tmp_path / "log")})
    usages = ask_at_once(client, ["slow", "a"], ["a", "slow", "b"], ["b", "b"])
    assert sorted(text for batch in batches(tmp_path / "log") for text in batch) == [
        "a",
        "b",
        "slow",
    ]
    assert [(usage.requests, usage.shared) for usage in usages] == [(2, 0), (3, 2), (1, 1)]
    ask(client, "a", "c", usage=(later := ToolUsage()))
    assert (later.from_memory, later.asked) == (1, 1)


def test_equal_inputs_of_different_days_are_one_request_unless_the_tool_uses_the_date() -> None:
    days = [dt.date(2021, 3, 9), dt.date(2021, 3, 10)]
    requests = [ToolRequest(input="x", date=day) for day in days]
    for uses_date, expected in ((False, ["1 None"] * 2), (True, ["1 2021-03-09", "1 2021-03-10"])):
        client = in_process(
            "tests.pipeline.breakable_tool:LoadedTool", options={"uses_date": uses_date}
        )
        results = asyncio.run(client.ask(requests, usage := ToolUsage()))
        assert [result.result for result in results] == expected
        assert usage.requests == len(set(expected))


def test_pages_of_a_search_are_requests_of_their_own_where_the_tool_has_pages(
    tmp_path: Path,
) -> None:
    requests = [ToolRequest(input="x", page=page) for page in (0, 1, 0)]
    for pages, expected in ((False, ["1 None"] * 3), (True, ["page 0", "page 1", "page 0"])):
        options = {"pages": pages}
        factory = "tests.pipeline.breakable_tool:LoadedTool"
        for known in (0, len(set(expected))):  # the second time from the disk
            client = in_process(factory, options=options, cache=tmp_path)
            results = asyncio.run(client.ask(requests, usage := ToolUsage()))
            assert [str(result.result).removeprefix("1 None ") for result in results] == expected
            assert (usage.requests, usage.from_disk) == (len(set(expected)), known)


def test_only_what_may_mend_itself_is_asked_again(tmp_path: Path) -> None:
    client = in_process(options={"log": str(tmp_path / "log")})
    results = ask(client, "starting", "invalid", "one", usage=(usage := ToolUsage()))
    assert statuses(results) == ["ok", "invalid", "ok"]
    assert statuses(ask(client, "raise")) == ["failed"]
    everything, *again, raising = batches(tmp_path / "log")
    assert everything == ["starting", "invalid", "one"]
    assert again == [["starting"], ["starting"]]
    assert raising == ["raise"]
    assert (usage.retries, usage.asked) == (2, 5)


@pytest.mark.parametrize("retries", [0, 1])
def test_retries_are_bounded_and_their_last_answer_stays(tmp_path: Path, retries: int) -> None:
    client = in_process(options={"log": str(tmp_path / "log")}, retries=retries)
    (result,) = ask(client, "down")
    assert (str(result.status), result.error) == ("failed", "not there yet")
    assert batches(tmp_path / "log") == [["down"]] * (1 + retries)
    ask(client, "down")  # it is not remembered that the tool was down
    assert batches(tmp_path / "log") == [["down"]] * 2 * (1 + retries)


def test_a_rerun_finds_everything_on_disk_and_another_version_nothing(tmp_path: Path) -> None:
    inputs = ["one", "invalid", "down", "two"]
    options = {"log": str(tmp_path / "log")}

    def run(**changed: str) -> tuple[list[ToolResult], ToolUsage]:
        client = in_process(options=options | changed, cache=tmp_path / "cache", retries=0)
        return ask(client, *inputs, usage=(usage := ToolUsage())), usage

    first, used = run()
    assert (used.from_disk, used.asked) == (0, 4)
    again, used = run()
    assert (used.from_disk, used.asked) == (3, 1)
    assert batches(tmp_path / "log")[1:] == [["down"]]
    assert again == first == ask(in_process(retries=0), *inputs)
    _, used = run(version="2")
    assert (used.from_disk, used.asked) == (0, 4)
    assert len(list((tmp_path / "cache").glob("*.sqlite"))) == 2


def test_own_tools_of_other_options_share_no_file_whatever_their_version(tmp_path: Path) -> None:
    for log in ("a", "b", "a"):
        client = in_process(options={"log": str(tmp_path / log)}, cache=tmp_path / "cache")
        ask(client, "one")
    assert batches(tmp_path / "a") == batches(tmp_path / "b") == [["one"]]
    assert len(list((tmp_path / "cache").glob("*.sqlite"))) == 2


def test_a_cache_that_cannot_be_kept_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    client = in_process(cache=tmp_path / "file")
    for expected in (1, 0):
        assert statuses(ask(client, f"call {expected}", usage=(usage := ToolUsage()))) == ["ok"]
        assert len(usage.warnings) == expected


def hosted(timeout_s: float = 60.0, **options: str) -> ToolClient:
    return client_of(ToolActor.remote("Breakable", FACTORY, options), timeout_s)


def client_of(actor: Any, timeout_s: float = 60.0) -> ToolClient:
    return ToolClient(
        ToolAccess(
            name="Breakable", factory=FACTORY, options={}, timeout_s=timeout_s, actors=[actor]
        )
    )


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_calls_that_kill_the_process_fail_alone_however_many_there_are(tmp_path: Path) -> None:
    client = hosted(log=str(tmp_path / "log"))
    results = ask(client, "one", "die", "two", "die", "three", usage=(usage := ToolUsage()))
    assert statuses(results) == ["ok", "failed", "ok", "failed", "ok"]
    assert results[1].error == "the tool's process died of this call"
    asked = [text for batch in batches(tmp_path / "log") for text in batch]
    assert asked.count("die") == 3  # in the batch, and twice alone
    assert usage.restarts == 3
    assert statuses(ask(client, "four", "five")) == ["ok", "ok"]


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_a_process_killed_from_outside_costs_a_retry_and_no_answer(tmp_path: Path) -> None:
    client = hosted(log=str(tmp_path / "log"))
    killer = threading.Thread(target=kill_the_first_process, args=(tmp_path / "log",))
    killer.start()
    results = ask(client, "one", "slow", "two", usage=(usage := ToolUsage()))
    killer.join()
    assert [result.result for result in results] == ["one", "slow", "two"]
    assert (usage.restarts, usage.retries) == (1, 3)


def pid_of_the_next(actor: Any, killed: int) -> int:
    """The process that Ray starts in place of one that was killed; returns once it runs."""
    pid = killed
    while pid == killed:
        time.sleep(0.1)
        with suppress(ray.exceptions.RayActorError):
            pid = ray.get(health_of(actor)).pid
    return pid


def kill_the_first_process(log: Path) -> None:
    """SIGKILL to the process that wrote the first line of `log`, while it is at work."""
    while not log.exists() or "\n" not in log.read_text():
        time.sleep(0.01)
    os.kill(json.loads(log.read_text().splitlines()[0])[0], signal.SIGKILL)


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_a_call_that_hangs_times_out_once_and_frees_the_process(tmp_path: Path) -> None:
    client = hosted(timeout_s=2.0, log=str(tmp_path / "log"))
    assert statuses(ask(client, "hang")) == ["timeout"]
    assert batches(tmp_path / "log") == [["hang"]]
    assert statuses(ask(client, "one")) == ["ok"]


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_a_process_killed_while_idle_loads_again_in_any_time() -> None:
    factory = "tests.pipeline.breakable_tool:LoadedTool"
    actor: Any = ToolActor.remote("Breakable", factory, {"pause_s": 4.0})
    client = client_of(actor, timeout_s=2.0)
    killed = ray.get(health_of(actor)).pid
    os.kill(killed, signal.SIGKILL)
    started = pid_of_the_next(actor, killed)
    results = ask(client, "one", "two", usage=(usage := ToolUsage()))
    assert statuses(results) == ["ok", "ok"]
    assert (usage.restarts, usage.retries, usage.batches) == (1, 0, 1)
    assert ray.get(health_of(actor)).pid == started


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_an_answer_in_time_counts_however_late_it_is_seen() -> None:
    actor: Any = ToolActor.remote("Breakable", FACTORY, {})
    client = client_of(actor, timeout_s=2.0)
    before = ray.get(health_of(actor)).pid

    async def asked() -> list[ToolResult]:
        answers = asyncio.create_task(client.ask([ToolRequest(input="slow")]))
        await asyncio.sleep(0.1)
        time.sleep(3.0)  # what else is computed in the stage
        return await answers

    assert statuses(asyncio.run(asked())) == ["ok"]
    assert ray.get(health_of(actor)).pid == before


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_waiting_for_a_busy_process_is_no_timeout() -> None:
    client = hosted(timeout_s=3.0)
    inputs = [f"wait {number}" for number in range(320)]  # 6.4 s in all, 0.64 s a batch
    assert set(statuses(ask(client, *inputs))) == {"ok"}


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_a_process_says_how_it_is_while_a_batch_runs() -> None:
    actor: Any = ToolActor.remote("Breakable", FACTORY, {})
    client = client_of(actor)

    async def asked() -> tuple[HostHealth, list[ToolResult]]:
        slow = asyncio.create_task(client.ask([ToolRequest(input="slow")]))
        await asyncio.sleep(0.2)
        health: HostHealth = await health_of(actor)
        assert not slow.done()
        return health, await slow

    health, results = asyncio.run(asked())
    assert health.busy_s is not None and health.busy_s > 0
    assert (health.requests, health.loaded) == (0, True)
    assert statuses(results) == ["ok"]
    assert ray.get(health_of(actor)).statuses == {"ok": 1}


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_prometheus_sees_answers_batches_and_memory() -> None:
    client = hosted()
    ask(client, "metric one", "metric two", "invalid")
    ask(client, "metric one")
    wanted = (
        'ray_toolformer_tool_requests_total{', 'source="memory",', 'source="tool",',
        'status="invalid",', "ray_toolformer_tool_batch_seconds_bucket{",
        "ray_toolformer_tool_batch_size_bucket{", "ray_toolformer_tool_rss_bytes{",
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while missing := [text for text in wanted if text not in scraped()]:
        assert time.monotonic() < deadline, missing
        time.sleep(0.5)


def scraped() -> str:
    (node,) = ray.nodes()  # type: ignore[no-untyped-call]
    url = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(url) as page:
        return str(page.read().decode())


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
def test_actors_without_a_place_are_named_with_what_they_ask_for() -> None:
    actors: list[Any] = [
        ToolActor.options(num_gpus=num_gpus).remote("Breakable", FACTORY, {}) for num_gpus in (0, 2)
    ]
    access = ToolAccess(
        name="Breakable", factory=FACTORY, options={}, timeout_s=60.0, num_gpus=2, actors=actors
    )
    ray.get(health_of(actors[0]))
    told: list[str] = []
    tell_of_unplaced([access], told.append, patience_s=1.0)
    (line,) = told
    assert "tool Breakable: 1 of 2 actors have no place" in line
    assert "num_gpus 2" in line and "free are 0 GPUs" in line


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize(
    ("tool", "engine", "says"),
    [
        ({"actors": 3}, {"replicas": 4}, None),
        ({"actors": 2, "num_gpus": 0.5}, {"num_gpus": 1}, "2 GPUs are asked for and 0 are there;"),
        # 1.25 are the stages'.
        ({"actors": 1, "num_cpus": 3}, {}, "4.25 CPUs are asked for and 4 are there;"),
        ({}, {"name": "vllm", "tensor_parallel_size": 2, "replicas": 3}, "6 GPUs are asked for"),
        # Four actors in each of four stages, and one that asks the tools.
        ({"actors": 3}, {"replicas": 25}, "4.25 CPUs are asked for and 4 are there;"),
    ],
)
def test_more_than_the_cluster_has_is_one_line(
    tool: dict[str, Any], engine: dict[str, Any], says: str | None
) -> None:
    config = RunConfig.model_validate(
        {"run": "r", "input": "i", "model": {"path": "m"}, "engine": engine}
        | {"tools": {"Calculator": tool}}
    )
    line = shortage(config)
    assert line is None if says is None else line is not None and line.startswith(says)
