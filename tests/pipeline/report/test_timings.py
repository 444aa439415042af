"""Time on the clock, pauses, the rate, and what a run cost."""

from typing import Any

import pytest

from pipeline.config import RunConfig
from pipeline.report.cost import cost
from pipeline.report.rate_plot import rate_svg
from pipeline.report.timings import Pause, Span, pauses_between, span_of, timings
from tests.pipeline.build.scored_units import run_config
from tests.pipeline.soak.handmade import mark
from tools.usage import ToolUsage

# Two units side by side, an hour in which nobody works, a third one.
SPANS = [Span(1000, 1060, 30), Span(1030, 1090, 30), Span(4690, 4720, 60)]


def test_a_mark_that_does_not_say_when_its_unit_was_begun_is_as_long_as_its_stages() -> None:
    assert span_of(mark(5.0, 9.0)) == Span(5.0, 9.0, 10)
    assert span_of(mark(0.0, 9.0, seconds={"sample": 2.0, "score": 1.5})) == Span(5.5, 9.0, 10)


def test_a_pause_is_a_minute_that_no_unit_covers() -> None:
    assert pauses_between(SPANS) == [Pause(1090, 4690)]
    assert pauses_between([Span(0, 10, 1), Span(69.9, 80, 1)]) == []
    assert pauses_between([Span(0, 500, 1), Span(10, 20, 1), Span(400, 600, 1)]) == []
    assert pauses_between([]) == []


def test_the_wall_clock_has_pauses_and_the_working_time_has_none() -> None:
    found = timings(SPANS)
    assert (found.begun_at, found.finished_at) == (1000, 4720)
    assert (found.wall_s, found.working_s) == (3720, 120)
    assert found.documents_per_minute == 60
    assert found.pauses_at_s == [(90, Pause(1090, 4690))]


def test_the_rate_adds_up_to_the_documents() -> None:
    # After 60, 90, 119 and 120 s of work there are 30, 30, 12 and 60 documents more.
    found = timings([*SPANS, Span(4690, 4719, 12)])
    assert found.rate_edges_s == [0, 60, 120]
    assert found.rate == [0, 132]  # a commit on an edge counts after it
    many = timings([Span(n, n + 30, 7) for n in range(500)])
    assert len(many.rate) == 60
    assert sum(many.rate) * many.working_s / 60 / 60 == pytest.approx(3500, rel=1e-5)


def test_without_units_there_are_no_timings() -> None:
    found = timings([])
    assert (found.wall_s, found.rate, found.pauses) == (0, [], [])
    assert "<svg" in rate_svg(found, title="nothing")


def test_the_plot_marks_each_pause() -> None:
    svg = rate_svg(timings(SPANS), title="rate")
    assert svg.count('class="pause"') == 1 and "<title>paused for 60 min</title>" in svg
    assert "NaN" not in svg and "nan" not in svg


def config(**changes: Any) -> RunConfig:
    return run_config(**changes)


def test_hours_at_work_are_of_replicas_and_hours_held_of_the_clock() -> None:
    two_gpus = {"name": "torch", "replicas": 2, "num_gpus": 1}
    seconds = {"read": 9.0, "sample": 3600.0, "execute": 9.0, "score": 1800.0}
    found = cost(config(engine=two_gpus), seconds, 3_000_000, {}, working_s=3600)
    assert found.resource == "GPU"
    (pool,) = found.pools
    assert pool.by_stage == {"sample": 1.0, "score": 0.5}
    assert (found.at_work_hours, found.held_hours) == (1.5, 2.0)
    assert found.tokens_per_hour_at_work == 2_000_000
    assert found.tokens_per_hour_held == 1_500_000


def test_without_gpus_hours_are_of_cpu_threads() -> None:
    engine = {"name": "torch", "replicas": 3, "num_threads": 4}
    found = cost(config(engine=engine), {"sample": 900.0}, 0, {}, working_s=360)
    assert (found.resource, found.at_work_hours, found.held_hours) == ("CPU", 1.0, 1.2)
    assert found.tokens_per_hour_held is None


def test_a_replica_that_works_on_several_units_at_once_has_no_known_hours() -> None:
    vllm = {"name": "vllm", "replicas": 1, "tensor_parallel_size": 4}
    found = cost(config(engine=vllm), {"sample": 3600.0}, 100, {}, working_s=1800)
    assert (found.pools[0].per_replica, found.held_hours) == (4, 2.0)
    assert found.at_work_hours is None and found.tokens_per_hour_at_work is None


def test_pools_that_wait_for_one_another_have_no_known_hours_and_tools_have() -> None:
    found = cost(
        config(
            engine={"name": "torch", "num_gpus": 1},
            engines={"loss": {"name": "torch", "replicas": 3, "num_gpus": 1}},
            tools={"QA": {"actors": 2, "num_gpus": 0.5}},
        ),
        {"sample": 360.0, "score": 720.0}, 0, {"QA": ToolUsage(seconds=72.0)}, working_s=360,
    )  # fmt: skip
    assert [(pool.pool, pool.at_work_hours, pool.held_hours) for pool in found.pools] == [
        ("position+sample", None, 0.1), ("loss", None, 0.3), ("tool QA", 0.01, 0.1),
    ]  # fmt: skip
    assert (found.held_hours, found.at_work_hours) == (0.5, None)
    assert [pool.by_stage for pool in found.pools] == [{}, {}, {"execute": 0.01}]
