"""The page: complete, self-contained, and safe against the text it shows."""

import base64
import hashlib
import json
import re
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

from pipeline.build import build
from pipeline.report import collect_stats, survey, write_report
from pipeline.report.html import render
from pipeline.report.plots import gain_histogram_svg
from pipeline.report.tool_stats import BIN_EDGES, GainHistogram
from pipeline.rundir import DoneMark
from tests.pipeline.build.scored_units import (
    byte_codec,
    candidate,
    row,
    run_config,
    two_units,
    write_unit,
)
from tests.pipeline.soak.handmade import mark
from tools.usage import ToolUsage

HOSTILE = "</p><script>alert('x')</script><img src=x onerror=alert(1)> & so on"


class Elements(HTMLParser):
    """Tags, attributes, and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.text += " " if tag in ("td", "span", "p") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def report(directory: Path, unit_files: list[Path]) -> str:
    config = run_config()
    page = write_report(directory / "report", survey(unit_files, [], config), config)
    assert page == directory / "report" / "index.html"
    return page.read_text(encoding="utf-8")


def test_the_page_refers_to_nothing_outside_itself(tmp_path: Path) -> None:
    page = report(tmp_path, two_units(tmp_path / "units"))
    elements = Elements(page)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(elements.tags)
    assert not {"src", "xlink:href", "srcset"} & {name for name, _ in elements.attributes}
    links = {value for name, value in elements.attributes if name == "href"}
    ids = {f"#{value}" for name, value in elements.attributes if name == "id"}
    assert links <= ids and "#calls" in links
    assert not re.search(r"url\(|@import|https?:", page)


def test_hostile_text_is_shown_and_not_run(tmp_path: Path) -> None:
    calls = [candidate("Calculator", 9, HOSTILE, HOSTILE, plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row(f"doc {HOSTILE}", HOSTILE, calls)])
    page = report(tmp_path, [unit])
    elements = Elements(page)
    assert "img" not in elements.tags and elements.tags.count("script") == 1
    assert "onerror" not in {name for name, _ in elements.attributes}
    assert f"[Calculator({HOSTILE}) -> {HOSTILE}]" in elements.text


def test_only_the_script_of_the_page_may_run(tmp_path: Path) -> None:
    page = report(tmp_path, two_units(tmp_path / "units"))
    (script,) = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert f"script-src 'sha256-{allowed}'" in policy and "default-src 'none'" in policy


def test_what_would_garble_the_text_around_it_is_replaced(tmp_path: Path) -> None:
    garbling = "a\u202eb\x1b[31mc\x00d\u2069e\nf\u200dg"
    calls = [candidate("Calculator", 1, garbling, "7", plus=1.0)]
    page = report(tmp_path, [write_unit(tmp_path / "0.parquet", [row("x", garbling, calls)])])
    assert not re.search("[\u202e\x1b\x00\u2069]", page)
    assert "Calculator(a\ufffdb\ufffd[31mc\ufffdd\ufffde\nf\u200dg)" in Elements(page).text


def test_calls_are_rows_by_gain_that_a_script_can_find(tmp_path: Path) -> None:
    page = report(tmp_path, two_units(tmp_path / "units"))
    rows = re.findall(r'<tr data-gain="(.*?)" data-tool="(\w+)" data-kept="(\w+)">', page)
    assert [(float(gain), tool, kept) for gain, tool, kept in rows] == [
        (2.0, "Calculator", "kept"), (2.0, "Calendar", "kept"), (1.5, "Calculator", "kept"),
        (1.25, "Calendar", "kept"), (1.0, "Calculator", "kept"),
        (0.25, "Calculator", "dropped"), (0.1, "Calculator", "dropped"),
    ]  # fmt: skip


def test_long_texts_do_not_make_a_long_page(tmp_path: Path) -> None:
    long = "many words " * 20_000
    calls = [candidate("Calculator", at, f"{at}{long}", long, plus=1.0) for at in range(200)]
    unit = write_unit(tmp_path / "0.parquet", [row(long, long, calls)])
    page = report(tmp_path, [unit])
    assert page.count("<tr data-gain") == 40
    assert len(page) < 120_000


def test_tools_counts_and_calls_are_on_the_page(tmp_path: Path) -> None:
    text = Elements(report(tmp_path, two_units(tmp_path / "units"))).text
    words = " ".join(text.split())
    assert "5 calls that help, out of 10 that were tried" in words
    assert "In 2023, 3 + 4 is [Calculator(3 + 4) -> 7] 7." in words
    assert "< +0.10 dropped" in words
    assert "empty_text 1" in words
    assert "2 do not end, 1 do not parse" in words


def test_the_table_counts_documents_at_each_threshold(tmp_path: Path) -> None:
    page = report(tmp_path, two_units(tmp_path / "units"))
    rows = re.findall(r"<tr><td>(Calculator|Calendar)</td>(.*?)</tr>", page, flags=re.DOTALL)
    cells = {name: re.findall(r">([\d.,]+)</td>", columns) for name, columns in rows}
    # offered, at 0.5, 1.0 and 2.0, own tau_f, calls kept
    assert cells == {
        "Calculator": ["3", "2", "2", "1", "0.5", "3"],
        "Calendar": ["1", "1", "1", "1", "1", "2"],
    }


def test_what_was_asked_of_the_tools_is_on_the_page(tmp_path: Path) -> None:
    usage = ToolUsage(requests=1_204, from_memory=4, from_disk=700, shared=30, retries=2)
    usage.add_statuses(["ok"] * 1_201 + ["failed"] * 3)
    usage.add_batch(32, 0.5)
    usage.add_batch(32, 2.0)
    usage.warnings = ["tool_cache: <full>"]
    files, config = two_units(tmp_path / "units"), run_config()
    done = DoneMark(
        unit_id="0", documents=2, rows=2, dropped={}, bytes=1, blake2b="", seconds={}, tokens={},
        tools={"Calculator": usage}, finished_at=0.0,
    )  # fmt: skip
    page = render(survey(files, [done], config), config)
    (row,) = re.findall(r"<tr><td>Calculator</td>(<td>1,204.*?)</tr>", page)
    assert re.findall(r"<td>(.*?)</td>", row) == [
        "1,204", "734", "3", "2", "0", "2", "2.5", "550 ms", "2.2 s",
    ]  # fmt: skip
    assert "tool_cache: &lt;full&gt;" in page


def test_failed_calls_are_told_of_where_no_document_was_dropped(tmp_path: Path) -> None:
    files, config = two_units(tmp_path / "units")[:1], run_config()
    done = DoneMark(
        unit_id="0", documents=2, rows=2, dropped={}, failed=2, bytes=1, blake2b="", seconds={},
        tokens={}, finished_at=0.0,
    )  # fmt: skip
    words = " ".join(Elements(render(survey(files, [done], config), config)).text.split())
    assert "went no further None. 2 documents were dropped for a failure, or have a call" in words


def test_tools_with_gpus_are_in_the_cost_of_a_model_without(tmp_path: Path) -> None:
    config = run_config(
        tools={"Calculator": None, "Calendar": None, "QA": {"actors": 2, "num_gpus": 1}}
    )
    marks = [mark(1e9, 1e9 + 3600, seconds={"sample": 1800.0}, tokens={"loss_tokens": 7_000})]
    page = render(survey([], marks, config), config)
    rows = [
        re.findall("<td>(.*?)</td>", row)
        for row in re.findall(r"<tr>(<td>(?:position|tool QA).*?)</tr>", page)
    ]
    assert rows == [
        ["position+sample+loss", "CPU thread", "1", "0.5", "0.5", "0", "", "1", "1"],
        ["tool QA", "GPU", "2", "0", "", "", "0", "2", "1"],
    ]
    words = " ".join(Elements(page).text.split())
    assert "of the last time each unit was made, without loading and what was lost" in words
    assert "7,000 tokens through the model for an hour of a CPU thread held, 14,000" in words


def test_a_built_run_shows_its_dataset(tmp_path: Path) -> None:
    files, config = two_units(tmp_path / "units"), run_config()
    summary = build(files, config, byte_codec(), tmp_path)
    found = survey(files, [], config)
    page = write_report(tmp_path / "report", found, config, build=asdict(summary))
    words = " ".join(Elements(page.read_text(encoding="utf-8")).text.split())
    assert "2 documents in C*, 4 calls" in words


def test_a_run_without_documents_has_a_page(tmp_path: Path) -> None:
    text = Elements(report(tmp_path, [])).text
    assert "0 calls that help, out of 0 that were tried" in text
    assert "No call was scored." in text


def test_stats_json_is_what_was_counted(tmp_path: Path) -> None:
    files, config = two_units(tmp_path / "units"), run_config()
    found = survey(files, [], config)
    write_report(tmp_path / "report", found, config)
    saved = json.loads((tmp_path / "report" / "stats.json").read_text())
    assert saved == asdict(found.stats) == asdict(collect_stats(files, [], config))
    assert saved["tools"]["Calculator"]["kept"] == 3
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == [
        "index.html",
        "stats.json",
    ]


def histogram(counts: dict[float, int], bounds: dict[float, int]) -> GainHistogram:
    """Counts by the lower edges of their bins."""
    edges = BIN_EDGES.tolist()
    return GainHistogram(
        edges=edges,
        counts=[counts.get(edge, 0) for edge in edges[:-1]],
        bound_counts=[bounds.get(edge, 0) for edge in edges[:-1]],
    )


def bars_in(svg: str) -> list[tuple[str, str]]:
    return re.findall(r'<rect class="(\w+)"[^>]*><title>([^<]*)</title>', svg)


def test_bars_at_tau_f_and_above_are_marked_as_kept() -> None:
    gains = histogram({0.25: 4, 0.5: 3, 2.0: 1}, {-1.0: 2})
    svg = gain_histogram_svg(gains, 0.5, kept=4, title='a "label" <here>')
    assert bars_in(svg) == [
        ("bound", "upper bound -1 to -0.75 nats: 2 calls"),
        ("below", "0.25 to 0.5 nats: 4 calls"),
        ("kept", "0.5 to 0.75 nats: 3 calls"),
        ("kept", "2 to 2.25 nats: 1 calls"),
    ]
    assert 'aria-label="a &#34;label&#34; &lt;here&gt;"' in svg


def test_the_bin_that_tau_f_is_in_is_split_and_the_outer_bins_are_open() -> None:
    gains = histogram({-3.0: 7, 0.5: 5, 5.75: 2}, {-3.0: 1})
    assert bars_in(gain_histogram_svg(gains, 0.6, kept=4, title="")) == [
        ("below", "below -2.75 nats: 7 calls"),
        ("bound", "upper bound below -2.75 nats: 1 calls"),
        ("below", "0.5 to 0.75 nats: 3 calls"),
        ("kept", "0.5 to 0.75 nats: 2 calls"),
        ("kept", "5.75 nats or more: 2 calls"),
    ]
    assert bars_in(gain_histogram_svg(gains, 8.0, kept=1, title=""))[-2:] == [
        ("below", "5.75 nats or more: 1 calls"),
        ("kept", "5.75 nats or more: 1 calls"),
    ]
