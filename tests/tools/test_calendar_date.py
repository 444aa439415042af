import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.base import ToolRequest, ToolStatus
from tools.calendar_date import CalendarTool, date_from_url, format_date

NINTH = dt.date(2017, 3, 9)
WEBTEXT = Path(__file__).parents[3] / "shared" / "data" / "webtext"


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/2017/03/09/a-story",
        "https://a.example/2017/3/9/",
        "https://a.example/news/2017/03/09.html",
        "https://a.example/2017-03-09-a-story.html",
        "https://a.example/a-story-2017_03_09",
        "https://a.example/2017.03.09/x",
        "https://a.example/2017/0309/story",
        "https://a.example/2017-03/09/story",
        "https://a.example/2017/03-09-story",
        "https://a.example/world/2017/mar/09/story",
        "https://a.example/2017/March/9/story",
        "https://a.example/9-march-2017-story",
        "https://a.example/story-mar-9-2017",
        "https://a.example/20170309",
        "https://a.example/story_20170309T1200.html",
        "https://a.example/story-20170309-1200",
        "https://a.example/2017%2F03%2F09/x",
        "https://a.example/9%20March%202017",
        "https://a.example/March%209,%202017.pdf",
        "<https://a.example/2017/03/09/x>",
        "a.example/2017/03/09/x",
        "https://a.example/story?date=2017-03-09",
        "https://a.example/2017/13/40/2017/03/09/",
    ],
)
def test_a_day_is_found_in(url: str) -> None:
    assert date_from_url(url, not_after=None) == NINTH


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/2017/03/",  # no day, so no weekday
        "https://a.example/2023/10/3-fragen-an-jemand",  # the 3 belongs to a title
        "https://2017-03-09.example/story",  # a host, not a path
        "https://a.example/09/03/2017/story",  # day first or month first?
        "https://a.example/id/1234520170309",  # part of a longer number
        "https://a.example/id/201703091234567",
        "https://a.example/id/20170309f00d",
        "https://a.example/20171340",  # no such day
        "https://a.example/2017/02/30/",
        "https://a.example/1989/03/09/story",  # before the web
        "https://a.example/story?id=2017-03-09",
        "https://a.example/2017/03/9.5-million-people",
        "https://a.example/may-1989",
        "2017-03-09.example/story",
        "https://a.example/story#2017-03-09",
        "https://[broken/2017/03/09/",
        "",
    ],
)
def test_no_day_is_found_in(url: str) -> None:
    assert date_from_url(url, not_after=None) is None


def test_a_day_after_the_crawl_is_none() -> None:
    url = "https://a.example/2017/03/09/x"
    assert date_from_url(url, not_after=NINTH) == NINTH
    assert date_from_url(url, not_after=dt.date(2017, 3, 8)) is None


@pytest.mark.parametrize(
    ("url", "day"),
    [
        ("https://a.example/2017-03-09/20170311/x", dt.date(2017, 3, 9)),
        ("https://a.example/20170311/2017/03/09/x", dt.date(2017, 3, 9)),
        ("https://a.example/2017/03/09/2018/04/10/x", dt.date(2017, 3, 9)),
        ("https://a.example/2017/03/09/x?date=2018-04-10", dt.date(2017, 3, 9)),
        ("https://a.example/1994/12/31/1995/01/01/x", dt.date(1995, 1, 1)),
        ("https://a.example/sept-1-2016", dt.date(2016, 9, 1)),
        ("https://a.example/1-sep-2016", dt.date(2016, 9, 1)),
        ("https://a.example/2016/september/1/x", dt.date(2016, 9, 1)),
        ("https://a.example/2016-02-29", dt.date(2016, 2, 29)),
        ("https://web.archive.org/web/20120216182711/http://b.example/", dt.date(2012, 2, 16)),
    ],
)
def test_the_more_trusted_form_wins_and_then_the_first(url: str, day: dt.date) -> None:
    assert date_from_url(url, not_after=None) == day


@settings(deadline=None)
@given(st.dates(dt.date(1995, 1, 1), dt.date(2099, 12, 31)))
def test_every_day_is_found_in_its_common_forms(day: dt.date) -> None:
    for form in ("{:%Y/%m/%d}", "{:%Y-%m-%d}", "{:%Y%m%d}", "{0.year}/{0.month}/{0.day}"):
        url = f"https://a.example/{form.format(day)}/story"
        assert date_from_url(url, not_after=day) == day


@settings(deadline=None)
@given(st.text(alphabet="0123456789/-_.?=&%:[]<> amyjnT", max_size=40) | st.text())
def test_no_url_breaks_it(url: str) -> None:
    for candidate in (url, f"https://a.example/{url}", f"https://a.example/?date={url}"):
        date = date_from_url(candidate, not_after=NINTH)
        assert date is None or dt.date(1995, 1, 1) <= date <= NINTH


def test_the_papers_form_of_the_answer() -> None:
    assert format_date(NINTH) == "Today is Thursday, March 9, 2017."
    assert format_date(dt.date(2023, 1, 30)) == "Today is Monday, January 30, 2023."


def test_the_tool_answers_with_the_date_of_the_document() -> None:
    requests = [
        ToolRequest(input="", date=NINTH),
        ToolRequest(input="", date=None),
        ToolRequest(input="tomorrow", date=NINTH),
    ]
    results = CalendarTool().run(requests)
    assert results[0].result == "Today is Thursday, March 9, 2017."
    assert [r.status for r in results] == [ToolStatus.OK, ToolStatus.EMPTY, ToolStatus.INVALID]


@pytest.mark.shared_data
def test_days_in_real_urls_agree_with_annotated_dates() -> None:
    """39 of 41: one is an archived page, one was annotated a day later."""
    path = WEBTEXT / "htmldate_trafilatura_eval.jsonl"
    if not path.exists():
        pytest.skip(f"no real web text at {path}")
    pages = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [
        (date_from_url(page["url"], not_after=None), page["gold_date"])
        for page in pages
        if page.get("gold_date")
    ]
    dated = [(date.isoformat(), gold) for date, gold in found if date is not None]
    assert len(dated) >= 35
    assert sum(date == gold for date, gold in dated) / len(dated) >= 0.9


@pytest.mark.shared_data
def test_about_one_c4_document_in_twelve_has_a_day_in_its_url() -> None:
    path = WEBTEXT / "c4_wimbd_1000.jsonl"
    if not path.exists():
        pytest.skip(f"no real web text at {path}")
    urls = [json.loads(line)["url"] for line in path.read_text(encoding="utf-8").splitlines()]
    share = sum(date_from_url(url, not_after=None) is not None for url in urls) / len(urls)
    assert 0.05 < share < 0.12
