"""The cache on disk: what it keeps, and that nothing done to its files gives a wrong answer."""

import datetime as dt
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tools.base import ToolRequest, ToolResult, ToolStatus
from tools.result_cache import ResultCache

ROOT = Path(__file__).parents[2]
DAY = dt.date(2021, 3, 9)
KEPT = {
    ToolRequest(input="1 + 1"): ToolResult.ok("2"),
    ToolRequest(input="", date=DAY): ToolResult.ok("Today is Tuesday, March 9, 2021."),
    ToolRequest(input=""): ToolResult.empty("the date of the document is not known"),
    ToolRequest(input="half of a pair: \ud83d"): ToolResult.invalid("not \udcff text"),
}
WRITER = """
import sys
from pathlib import Path
from tools.base import ToolRequest, ToolResult
from tools.result_cache import ResultCache

directory, first, batches = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
cache = ResultCache(directory, "Tool", "1")
for batch in range(first, first + batches):
    result = ToolResult.ok(f"{batch}" * 50)
    cache.put({ToolRequest(input=f"{batch}:{i}"): result for i in range(20)})
    print(batch, flush=True)
assert cache.take_warning() is None
"""


def batch_of(number: int) -> dict[ToolRequest, ToolResult]:
    return {ToolRequest(input=f"{number}:{i}"): ToolResult.ok(f"{number}" * 50) for i in range(20)}


def writer(directory: Path, first: int, batches: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(first), str(batches)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def filled(directory: Path) -> ResultCache:
    cache = ResultCache(directory, "Tool", "1")
    cache.put(KEPT)
    return cache


def test_what_a_tool_says_of_its_input_is_found_by_the_next_process(tmp_path: Path) -> None:
    filled(tmp_path).close()
    again = ResultCache(tmp_path, "Tool", "1")
    assert again.get([*KEPT, ToolRequest(input="1 + 1", date=DAY)]) == KEPT
    assert again.take_warning() is None


def test_later_pages_are_answers_of_their_own(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    pages = {ToolRequest(input="1 + 1", page=n): ToolResult.ok(f"page {n}") for n in (1, 2)}
    assert cache.get(list(pages)) == {}
    cache.put(pages)
    assert cache.get([*KEPT, *pages]) == KEPT | pages


def test_files_of_before_there_were_pages_are_read(tmp_path: Path) -> None:
    cache = filled(tmp_path)
    cache.close()
    with closing(sqlite3.connect(cache.path)) as connection:
        keys = {bytes(key) for (key,) in connection.execute("SELECT key FROM results")}
    for text in (r'["1 + 1", null]', r'["", "2021-03-09"]', r'["half of a pair: \ud83d", null]'):
        assert hashlib.blake2b(text.encode(), digest_size=16).digest() in keys


def test_that_a_tool_broke_or_was_late_is_not_kept(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, "Tool", "1")
    broken = {
        ToolRequest(input="a"): ToolResult.failed("down", retryable=True),
        ToolRequest(input="b"): ToolResult(status=ToolStatus.TIMEOUT, error="no answer"),
    }
    cache.put(broken)
    assert cache.get(list(broken)) == {}


def test_every_tool_and_version_has_a_file_of_its_own(tmp_path: Path) -> None:
    filled(tmp_path)
    for tool, version in (("Tool", "2"), ("Other", "1")):
        other = ResultCache(tmp_path, tool, version)
        assert other.get(list(KEPT)) == {}
        other.put(KEPT)
    assert len(list(tmp_path.glob("*.sqlite"))) == 3


def test_more_requests_than_one_query_takes_are_found(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path, "Tool", "1")
    many = {ToolRequest(input=str(n)): ToolResult.ok(str(n)) for n in range(1_234)}
    cache.put(many)
    assert cache.get(list(many)) == many


def test_two_processes_write_one_file_at_once(tmp_path: Path) -> None:
    writers = [writer(tmp_path, 0, 60), writer(tmp_path, 30, 60)]
    for process in writers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    cache = ResultCache(tmp_path, "Tool", "1")
    for number in range(90):
        assert cache.get(list(batch_of(number))) == batch_of(number)
    assert cache.take_warning() is None


def test_a_writer_that_is_killed_leaves_whole_batches(tmp_path: Path) -> None:
    process = writer(tmp_path, 0, 100_000)
    assert process.stdout is not None
    written = [int(process.stdout.readline()) for _ in range(40)]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    cache = ResultCache(tmp_path, "Tool", "1")
    for number in written:
        assert cache.get(list(batch_of(number))) == batch_of(number)
    for number in range(len(written), len(written) + 200):
        assert len(cache.get(list(batch_of(number)))) in (0, 20)
    assert cache.take_warning() is None


@pytest.mark.parametrize(
    "content", [b"", b"no database\n" * 1000, b"SQLite format 3\0" + b"x" * 80]
)
def test_a_file_that_is_none_of_ours_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = ResultCache(tmp_path, "Tool", "1").path
    path.write_bytes(content)
    cache = ResultCache(tmp_path, "Tool", "1")
    assert cache.get(list(KEPT)) == {}
    cache.put(KEPT)
    assert cache.get(list(KEPT)) == KEPT
    warning = cache.take_warning()
    if content:
        assert warning is not None and str(path) in warning and "\n" not in warning
        assert path.with_suffix(".damaged").read_bytes() == content
    else:
        assert warning is None  # a process was killed before it wrote anything
    assert cache.take_warning() is None


def test_a_database_of_somebody_else_is_set_aside_and_kept(tmp_path: Path) -> None:
    path = ResultCache(tmp_path, "Tool", "1").path
    theirs = sqlite3.connect(path)
    theirs.execute("CREATE TABLE results (key BLOB PRIMARY KEY, value BLOB)")
    theirs.commit()
    theirs.close()
    before = path.read_bytes()
    cache = filled(tmp_path)
    assert path.with_suffix(".damaged").read_bytes() == before
    cache.put(KEPT)
    assert cache.get(list(KEPT)) == KEPT


@pytest.mark.parametrize("seed", range(4))
def test_a_file_with_changed_bytes_gives_no_wrong_answer(tmp_path: Path, seed: int) -> None:
    cache = ResultCache(tmp_path, "Tool", "1")
    known = {request: r for n in range(40) for request, r in batch_of(n).items()}
    cache.put(known)
    cache.close()
    content = bytearray(cache.path.read_bytes())
    for at in range(1_000 + 61 * seed, len(content), 997):
        content[at] ^= 0x15
    cache.path.write_bytes(content)
    damaged = ResultCache(tmp_path, "Tool", "1")
    for request, answer in known.items():
        assert damaged.get([request]).get(request, answer) == answer
    assert damaged.take_warning() is not None
    damaged.put(known)
    assert damaged.get(list(known)) == known


def test_a_file_replaced_by_another_process_is_not_set_aside_again(tmp_path: Path) -> None:
    one, two = filled(tmp_path), ResultCache(tmp_path, "Tool", "1")
    assert two.get(list(KEPT)) == KEPT
    with open(one.path, "r+b") as handle:
        handle.write(b"x" * os.path.getsize(one.path))
    for cache in (one, two):
        assert cache.get(list(KEPT)) == {}
    one.put(KEPT)
    assert two.get(list(KEPT)) == KEPT
    two.put(batch_of(1))
    assert one.get(list(batch_of(1))) == batch_of(1)


def test_a_full_disk_turns_the_cache_off_with_one_warning(small_disk: Path) -> None:
    cache = ResultCache(small_disk / "cache", "Tool", "1")
    for number in range(200):
        cache.put(batch_of(number))
    warning = cache.take_warning()
    assert warning is not None and "full" in warning and "not cached" in warning
    cache.put(KEPT)
    assert cache.get(list(KEPT)) == {}
    assert cache.take_warning() is None


def test_a_place_that_is_no_directory_turns_the_cache_off(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ResultCache(tmp_path / "file", "Tool", "1")
    cache.put(KEPT)
    assert cache.get(list(KEPT)) == {}
    warning = cache.take_warning()
    assert warning is not None and str(tmp_path / "file") in warning
