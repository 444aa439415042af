"""A tool in the process that serves it, without Ray."""

import datetime as dt
import os

import pytest

from tools.actors import ToolHost
from tools.base import ToolformerError, ToolRequest, ToolResult
from tools.calendar_date import CalendarTool
from tools.wikisearch.tool import WikiSearch

LOADED = "tests.pipeline.breakable_tool:LoadedTool"
BREAKABLE = "tests.pipeline.breakable_tool:BreakableTool"
DAY = dt.date(2021, 3, 9)


def answers(host: ToolHost, *inputs: str, date: dt.date | None = None) -> list[ToolResult]:
    served = host.run([ToolRequest(input=text, date=date) for text in inputs])
    assert served is not None
    return served.results


def test_a_tool_is_loaded_once_by_the_host() -> None:
    host = ToolHost("Breakable", LOADED, {})
    assert not host.health().loaded
    assert host.run([ToolRequest(input="")]) is None
    host.load()
    host.load()
    assert host.health().loaded
    assert [result.result for result in answers(host, "")] == ["1 None"]


def test_a_tool_that_cannot_load_is_one_line() -> None:
    host = ToolHost("Breakable", LOADED, {"loads": "no such\nfile"})
    with pytest.raises(ToolformerError, match=r"^tool Breakable: cannot load: RuntimeError: no su"):
        host.load()
    assert not host.health().loaded


@pytest.mark.parametrize(("uses_date", "answer"), [(True, "1 2021-03-09"), (False, "1 None")])
def test_the_date_reaches_a_tool_that_says_it_uses_it(uses_date: bool, answer: str) -> None:
    host = ToolHost("Breakable", LOADED, {"uses_date": uses_date})
    assert host.load().uses_date == uses_date
    (result,) = answers(host, "", date=DAY)
    assert result.result == answer


def test_the_calendar_uses_the_date_and_the_calculator_does_not() -> None:
    assert CalendarTool.uses_date
    host = ToolHost("Calculator", None, {})
    assert not host.load().uses_date


@pytest.mark.parametrize(("pages", "answer"), [(True, "1 None page 2"), (False, "1 None")])
def test_a_later_page_is_asked_only_of_a_tool_that_has_pages(pages: bool, answer: str) -> None:
    host = ToolHost("Breakable", LOADED, {"pages": pages})
    info = host.load()
    served = host.run([request := ToolRequest(input="x", page=2)])
    assert served is not None and [result.result for result in served.results] == [answer]
    assert info.pages == pages
    assert info.plain(request).page == (2 if pages else 0)


def test_wikisearch_has_pages_and_the_calculator_does_not() -> None:
    assert WikiSearch.pages
    assert not ToolHost("Calculator", None, {}).load().pages


def test_health_counts_what_the_process_answered() -> None:
    host = ToolHost("Breakable", BREAKABLE, {})
    host.load()
    answers(host, "a", "raise", "invalid")
    answers(host, "slow")
    health = host.health()
    assert (health.requests, health.batches) == (4, 2)
    assert health.statuses == {"ok": 2, "failed": 1, "invalid": 1}
    assert 0.5 <= health.seconds < 5.0
    assert health.busy_s is None
    assert health.pid == os.getpid()
    assert 10 * 2**20 < health.rss_bytes < 10 * 2**30
