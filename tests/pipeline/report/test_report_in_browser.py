"""The page in Chromium: it fits phones and desktops, can be searched, and asks nobody anything."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.build import build
from pipeline.report import survey, write_report
from pipeline.report.rounds import RoundCounter, Rounds
from pipeline.rundir import DoneMark, RunRecord
from tests.browser import CHROMIUM, Browser, Page, chromium
from tests.pipeline.build.scored_units import (
    byte_codec,
    candidate,
    position,
    row,
    run_config,
    two_units,
    write_unit,
)
from tools.usage import ToolUsage

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium (Debian's package chromium)"
)

ATTACK = (
    "</td></mark></bdi><script>attacked = 1</script><img src=x onerror='attacked = 1'>"
    "<svg onload=attacked=1><a href='javascript:attacked=1'>x</a>{{ 7 * 7 }}\"'>"
)
LONG = "https://example.org/" + "a-long-address-without-any-space" * 12


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with many calls, long words, and texts that attack it."""
    directory = tmp_path_factory.mktemp("report")
    hostile = f"{ATTACK} 12 + 30 {LONG}"
    calls = [
        candidate("Calculator", at, f"{at} + 1", f"{at + 1}", plus=2.8 - at / 1000)
        for at in range(60)
    ]
    calls[0] |= {"input": ATTACK, "result": ATTACK, "gain": 1.5, "loss_plus": 1.5}
    calls.append(
        candidate("Calculator", 1, "x", status="invalid", plus=None) | {"error": ATTACK + LONG}
    )
    positions = [position("Calculator", at) for at in range(60)]
    files = two_units(directory / "units")
    files.append(
        write_unit(
            directory / "units" / "0000002.parquet",
            [row(ATTACK + LONG, hostile, calls, positions=positions, dropped=None)],
        )
    )
    usage = ToolUsage(requests=12_345, warnings=[ATTACK, LONG], statuses={"ok": 12_345})
    usage.add_batch(32, 0.5)
    marks = [
        DoneMark(
            unit_id=f"{n}", documents=2, rows=2, dropped={}, bytes=1, blake2b="",
            seconds={"read": 0.1, "sample": 20.0, "execute": 3.0, "score": 9.0, "commit": 0.1},
            tokens={"position_tokens": 120_000, "loss_tokens": 300_000},
            tools={"Calculator": usage},
            begun_at=1e9 + 4000 * n, finished_at=1e9 + 4000 * n + 30,
        )
        for n in range(3)
    ]  # fmt: skip
    config = run_config()
    built = asdict(build(files[:2], config, byte_codec(), directory))
    rounds, before = [], None
    for number, name in enumerate((ATTACK, LONG, "runs/second")):
        record = RunRecord(
            config=run_config(model={"path": name}), fingerprint="f" * 32, fingerprint_of={},
            versions={},
        )  # fmt: skip
        this = RoundCounter(f"runs/{name}", record, config, planned=9, before=before)
        found = survey(files[number:], marks, config, this_round=this)
        counted, before = this.result()
        rounds.append(counted)
    compared = Rounds(rounds=rounds, new_calls=this.new_calls() + found.calls[:2])
    write_report(
        directory / "report", survey(files, marks, config), config, build=built, rounds=compared
    )
    return directory / "report" / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = Page(browser)
    yield page
    page.close()


SHOWN = "[...document.querySelectorAll('#table tbody tr')].filter(row => row.offsetHeight > 0)"


def shown(page: Page, field: str) -> list[Any]:
    """A field of the data of each row that is seen, from the top."""
    values: list[Any] = page.evaluate(f"{SHOWN}.map(row => row.dataset.{field})")
    return values


def search(page: Page, words: str) -> None:
    page.evaluate("document.querySelector('[name=words]').focus()")
    page.evaluate("document.querySelector('[name=words]').select()")
    page.type(words)


def choose(page: Page, name: str, value: str) -> None:
    page.evaluate(
        f"(select => {{ select.value = {json.dumps(value)};"
        " select.dispatchEvent(new Event('input', {bubbles: true})) })"
        f"(document.querySelector('select[name={name}]'))"
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)], ids=["phone", "desktop"])
def test_the_page_fits_and_asks_for_nothing(
    page: Page, file: Path, width: int, height: int, dark: bool
) -> None:
    page.look_as(width=width, height=height, dark=dark)
    page.open(file)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= page.evaluate("innerWidth") == width
    # Whatever is wider than the page scrolls in a place of its own.
    assert page.evaluate(
        "[...document.querySelectorAll('body *')].filter(element =>"
        " element.getBoundingClientRect().right > innerWidth + 1 && !element.closest('.scroll'))"
        ".map(element => element.outerHTML.slice(0, 80))"
    ) == []  # fmt: skip
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 23, 26)") == dark
    bars = "[...document.querySelectorAll('.rounds .bar')].map(bar => bar.offsetWidth)"
    assert max(page.evaluate(bars)) > 60
    assert page.requests == [file.as_uri()] and page.complaints == []


def test_texts_that_attack_the_page_are_shown_and_do_nothing(page: Page, file: Path) -> None:
    page.open(file)
    assert page.evaluate("typeof attacked") == "undefined"
    assert page.evaluate("document.querySelectorAll('img, iframe, svg[onload]').length") == 0
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.querySelectorAll('a:not([href^=\"#\"])').length") == 0
    assert ATTACK in page.evaluate("document.getElementById('table').textContent")
    assert page.evaluate("document.body.textContent").count("{{ 7 * 7 }}") >= 5
    # What no text can do, a script that got in anyway could not either.
    page.evaluate("document.body.append(Object.assign(document.createElement('script'),"
                  " {textContent: 'attacked = 1'}))")  # fmt: skip
    assert page.evaluate("typeof attacked") == "undefined"
    assert "Content Security Policy" in str(page.complaints)


def test_a_promise_is_waited_for(page: Page) -> None:
    assert page.evaluate("new Promise(kept => setTimeout(() => kept('late'), 50))") == "late"


def test_words_are_searched_and_tools_and_fates_chosen(page: Page, file: Path) -> None:
    page.open(file)
    everything = page.evaluate("document.querySelector('#table tbody').rows.length")
    assert len(shown(page, "gain")) == 20
    page.evaluate("document.getElementById('more').click()")
    assert len(shown(page, "gain")) == everything > 40
    search(page, "(3+4)")
    assert shown(page, "gain") == ["1.000000"]
    assert page.evaluate("document.getElementById('shown').textContent") == (
        f"1 of {everything} calls"
    )
    search(page, "MONDAY january")
    assert set(shown(page, "tool")) == {"Calendar"}
    search(page, "no such words")
    assert shown(page, "tool") == []
    page.evaluate("document.querySelector('#find button').click()")
    page.evaluate("new Promise(setTimeout)")
    assert len(shown(page, "gain")) == 20
    choose(page, "kept", "dropped")
    assert set(shown(page, "kept")) == {"dropped"}
    choose(page, "tool", "Calendar")
    assert shown(page, "kept") == []
    choose(page, "kept", "")
    assert shown(page, "tool") == ["Calendar"] * 2


def test_headings_sort_and_links_of_tools_choose_theirs(page: Page, file: Path) -> None:
    page.open(file)
    page.evaluate("document.getElementById('more').click()")
    gains = [float(gain) for gain in shown(page, "gain")]
    assert gains == sorted(gains, reverse=True)
    click = "document.querySelector('#table th button[data-key={}]').click()"
    page.evaluate(click.format("gain"))
    assert [float(gain) for gain in shown(page, "gain")] == sorted(gains)[:20]
    page.evaluate(click.format("tool"))
    page.evaluate(click.format("tool"))
    assert shown(page, "tool") == ["Calendar"] * 2 + ["Calculator"] * 18
    assert page.evaluate("document.querySelectorAll('#table th[aria-sort]').length") == 1
    page.evaluate("document.querySelector('a[data-tool=Calendar]').click()")
    page.evaluate("new Promise(setTimeout)")
    assert set(shown(page, "tool")) == {"Calendar"}


def test_without_the_script_the_table_is_all_there(page: Page, file: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.html"
    content = file.read_text(encoding="utf-8")
    plain.write_text(content.replace("script-src 'sha256", "script-src 'sha384"), encoding="utf-8")
    page.open(plain)
    assert page.evaluate("document.getElementById('find').hidden") is True
    assert page.evaluate("document.querySelectorAll('#table th button').length") == 0
    assert len(shown(page, "gain")) > 40
