"""What `status` says, and `status --watch` while units are finished beside it."""

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pytest
from rich.console import Console
from upath import UPath

from pipeline.rundir import RunDir
from pipeline.status import status_table
from pipeline.status.progress import RunProgress
from pipeline.status.view import State, progress_line
from tests.pipeline.build.scored_units import candidate, row, run_config
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.made_runs import commit, planned_run
from tools.usage import ToolUsage

START = 1_000_000.0


def rows_of(number: int, dropped: str | None = None) -> list[dict[str, Any]]:
    """Two documents; the first has a kept call of the Calculator and one that is not."""
    calls = [
        candidate("Calculator", 1, "1 + 1", "2", plus=2.0),
        candidate("Calculator", 1, "1 + 2", "3", plus=2.9),
    ]
    return [row(f"{number}-a", "1 + 1 = 2", calls), row(f"{number}-b", "b", dropped=dropped)]


def shown(run: RunDir) -> dict[str, str]:
    """The table by the names of its rows; lines without one are under "", one below the other."""
    console = Console(file=io.StringIO(), width=200)
    console.print(status_table(run))
    assert isinstance(console.file, io.StringIO)
    lines = [line.split("  ", 1) for line in console.file.getvalue().splitlines() if "  " in line]
    table: dict[str, str] = {}
    for name, text in ((name.strip(), text.strip()) for name, text in lines):
        table[name] = f"{table[name]}\n{text}" if name in table else text
    return table


def test_before_the_first_unit_there_is_a_status(tmp_path: Path) -> None:
    table = shown(planned_run(tmp_path / "run", 3))
    assert table["units"] == "0 of 3"
    assert table["documents"] == "0 of 6 (0.0%)"
    assert table["rate"] == "no unit is finished yet"
    assert table["state"].startswith("unfinished, and nobody is at work on it")


def test_the_holder_of_the_lock_is_at_work(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 1)
    with run.lock():
        assert shown(run)["state"] == "unfinished, and another process is at work on it"
    assert "nobody" in shown(run)["state"]


def test_the_holder_in_a_store_is_named(bucket: UPath) -> None:
    run = planned_run(bucket / "held", 2)
    commit(run, 0, rows_of(0), begun_at=START, finished_at=START + 5)
    with run.lock():
        table = shown(run)
        assert f"process {os.getpid()} on " in table["state"]
        assert table["units"] == "1 of 2"
    assert "nobody" in shown(run)["state"]


def test_rates_leave_pauses_out_and_the_rest_is_at_the_last_rate(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 10)
    # Two units in 20 s, an hour's pause, then two in 4 s.
    for number, (begun, finished) in enumerate([(0, 10), (10, 20), (3620, 3622), (3622, 3624)]):
        commit(run, number, rows_of(number), begun_at=START + begun, finished_at=START + finished)
    progress = RunProgress(run)
    progress.refresh()
    assert (progress.documents, progress.working_s) == (8, 24.0)
    assert [pause.seconds for pause in progress.pauses] == [3600.0]
    assert progress.left_s() == 12 * 4.0 / 4  # 12 documents, the last 4 in 4 s
    table = shown(run)
    assert table["rate"] == "20.0 documents/min over all, 1.0 documents/s lately"
    assert table["at work"] == "24 s, and 60 min of pauses"
    assert table["left at this rate"] == "12 s"


def test_the_rate_after_a_pause_has_the_time_of_the_units_that_came_first(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 100)
    commit(run, 0, rows_of(0), begun_at=START - 4000, finished_at=START - 3600)
    for number in range(1, 5):  # four replicas, 60 s a unit
        commit(run, number, rows_of(number), begun_at=START, finished_at=START + 60 + number / 8)
    progress = RunProgress(run)
    progress.refresh()
    assert progress.left_s() == 190 * 60.5 / 8


def test_time_left_grows_while_somebody_is_at_work_and_commits_nothing(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 10)
    now = time.time()
    for number in range(4):  # 2 documents every 10 s
        begun = now - 7200 + 10 * number
        commit(run, number, rows_of(number), begun_at=begun, finished_at=begun + 10)
    assert shown(run)["left at this rate"] == "60 s"
    with run.lock():  # by a command that began just now: nobody was at work before it
        assert shown(run)["left at this rate"] == "60 s"
        began = now - 7260
        os.utime(str(run.record_path), (began, began))
        assert shown(run)["left at this rate"] == "3 h"  # 12 documents, 8 in two hours


def test_each_tool_says_what_it_yields_and_of_what_it_warned(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 2)
    usage = ToolUsage(requests=2, warnings=["cache full\x1b[2J"], statuses={"ok": 2})
    for number in range(2):
        commit(
            run, number, rows_of(number, dropped="too_big" if number else None),
            finished_at=START + number, tools={"Calculator": usage},
        )  # fmt: skip
    table = shown(run)
    assert table["state"] == "finished"
    assert table["tool Calculator"] == "4 calls, 0.0 s in the tool, 0 failed"
    assert table[""].splitlines()[1:] == [
        "4 candidates, 4 executed, 2 kept (50.0%)", "cache full [2J",
    ]  # fmt: skip
    assert table["dropped: too_big"] == "1"
    text = " ".join(table.values())
    assert "last error" not in table and "\x1b" not in text


@pytest.mark.parametrize(
    ("tau_f", "kept"), [(0.75, "2 kept"), (0.3, "at least 2 kept"), (1.1, "at least 0 kept")]
)
def test_kept_calls_between_two_counted_thresholds_are_told_as_a_bound(
    tmp_path: Path, tau_f: float, kept: str
) -> None:
    config = run_config(run=str(tmp_path), tools={"Calculator": {"tau_f": tau_f}})
    run = planned_run(tmp_path / "run", 2, config=config)
    for number in range(2):
        commit(run, number, rows_of(number), finished_at=START + number)
    assert f"4 candidates, 4 executed, {kept} (" in shown(run)["tool Calculator"]
    progress = RunProgress(run)
    progress.refresh()
    told = kept.removesuffix(" kept")
    assert f"; kept Calculator {told}; " in progress_line(
        progress, State("finished"), seconds_left=None
    )


def test_an_unforeseen_error_is_shown_by_its_last_line(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 1)
    error = Path(str(run.error_path))
    error.write_text("Traceback (most recent call last):\n  ...\nValueError: it broke\n")
    assert shown(run)["last error"].startswith("ValueError: it broke (")


def test_a_mark_is_read_once(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 3)
    commit(run, 0, rows_of(0), finished_at=START)
    progress = RunProgress(run)
    progress.refresh()
    path = Path(str(run.done_path("0000000")))
    path.write_text("no longer readable")
    commit(run, 1, rows_of(1), finished_at=START + 1)
    progress.refresh()
    assert (progress.units, progress.documents) == (2, 4)
    Path(str(run.unit_path("0000001"))).unlink()
    progress.refresh()
    assert progress.units == 2


def test_a_unit_file_that_is_not_whole_is_not_counted(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 2)
    progress = RunProgress(run)
    for number in range(2):
        commit(run, number, rows_of(number), finished_at=START)
    torn = Path(str(run.unit_path("0000001")))
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-1])
    progress.refresh()
    assert progress.units == 1
    torn.write_bytes(whole)
    progress.refresh()
    assert progress.is_finished


@contextmanager
def watching(run: RunDir, stdout: int | IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """`status --watch` in a process of its own."""
    arguments = ["status", str(run.path), "--watch", "--every", "0.2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *arguments],
        cwd=ROOT, env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
        stdout=stdout, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def test_a_watch_says_a_line_for_each_change_and_ends_with_the_run(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 2)
    with watching(run, subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline().decode()
        assert "0 of 4 documents (0.0%); unfinished, and nobody" in first
        with run.lock():
            assert b"another process is at work on it" in process.stdout.readline()
            commit(run, 0, rows_of(0), finished_at=START)
            assert b"2 of 4 documents (50.0%); kept Calculator 1; " in process.stdout.readline()
            commit(run, 1, rows_of(1), finished_at=START + 1)
            last = process.stdout.readline().decode()
        assert last.rstrip().endswith("4 of 4 documents (100.0%); kept Calculator 2; finished")
        assert process.stdout.read() == b""
        assert (process.wait(timeout=60), process.stderr.read()) == (0, b"")


def test_on_a_terminal_ctrl_c_ends_a_watch_without_a_word(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 2)
    terminal, inner = pty.openpty()
    try:
        with watching(run, inner) as process:
            os.close(inner)
            seen = read_until(terminal, b"0 of 2", seconds=120)
            commit(run, 0, rows_of(0), finished_at=START)
            seen += read_until(terminal, b"1 of 2", seconds=60)
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
            assert process.stderr is not None and process.stderr.read() == b""
            assert b"Traceback" not in seen
    finally:
        os.close(terminal)


def read_until(terminal: int, expected: bytes, *, seconds: float) -> bytes:
    """What is written to a terminal, up to `expected`."""
    seen, end = b"", time.monotonic() + seconds
    while expected not in seen:
        assert time.monotonic() < end, seen.decode()
        if select.select([terminal], [], [], 0.2)[0]:
            with suppress(OSError):
                seen += os.read(terminal, 65536)
    return seen
