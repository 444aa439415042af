import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from tests.training.reproduce.made import python, shipped
from tools.base import ConfigError, ToolformerError
from training.reproduce.journal import Done, Journal
from training.reproduce.plan import Row
from training.reproduce.reproduce import seconds_of
from training.reproduce.run import run_steps

ROOT = Path(__file__).resolve().parents[3]


def run(rows: Sequence[Row], out: Path) -> str:
    console, journal = Console(record=True, file=io.StringIO()), Journal(out)
    with journal.lock() as lock:
        run_steps(rows, journal, lock, console)
    return console.export_text()


def appending(name: str, file: Path) -> str:
    return f"open({str(file)!r}, 'a').write({name + ' '!r})"


def test_rows_run_in_order_and_nothing_finished_runs_again(tmp_path: Path) -> None:
    file = tmp_path / "said"
    rows = [(python(name, appending(name, file)),) for name in ("a", "b", "c")]
    assert "a: " in run(rows, tmp_path)
    assert file.read_text() == "a b c "
    run(rows, tmp_path)
    assert file.read_text() == "a b c "
    changed = [*rows[:1], (python("b", appending("new", file)),), *rows[2:]]
    run(changed, tmp_path)
    assert file.read_text() == "a b c new "


def test_two_steps_of_a_row_run_beside_each_other_and_a_third_waits(tmp_path: Path) -> None:
    ready = [tmp_path / name for name in "ab"]
    waiting = "import pathlib, time\nwhile not pathlib.Path({!r}).exists(): time.sleep(0.01)"
    row = (
        python("a", f"open({str(ready[0])!r}, 'w')\n" + waiting.format(str(ready[1]))),
        python("b", f"open({str(ready[1])!r}, 'w')\n" + waiting.format(str(ready[0]))),
        python("c", f"import pathlib; assert pathlib.Path({str(ready[0])!r}).exists()"),
    )
    run([row], tmp_path)
    marks = [Journal(tmp_path).done(step) for step in row]
    a, b, c = (mark for mark in marks if mark is not None)
    assert c.begun >= min(a.ended, b.ended)


def test_a_step_that_fails_is_told_in_one_line_with_its_log(tmp_path: Path) -> None:
    row = (
        python("good", "import time; time.sleep(30)"),
        python("bad", "import sys; print('so far'); sys.exit('no room')"),
    )
    begun = time.monotonic()
    with pytest.raises(ToolformerError) as caught:
        run([row], tmp_path)
    log = tmp_path / "logs" / "bad.log"
    assert str(caught.value) == f"bad failed with status 1: SystemExit: no room; its log: {log}"
    assert log.read_text().startswith("so far\n")
    assert time.monotonic() - begun < 20  # the one beside it is ended
    assert not any(Journal(tmp_path).done(step) for step in row)


def test_configurations_and_copies_are_there_before_a_step_starts(tmp_path: Path) -> None:
    source, target, config = tmp_path / "source", tmp_path / "target", tmp_path / "c.yaml"
    source.mkdir()
    (source / "file").write_text("kept")
    step = python(
        "a", f"assert open({str(target / 'file')!r}).read() == 'kept'; open({str(config)!r})"
    )
    made = type(step)(
        name=step.name, title=step.title, argv=step.argv, files={config: {"b": 1, "a": [2]}},
        copied={source: target},
    )  # fmt: skip
    run([(made,)], tmp_path / "out")
    assert config.read_text() == "b: 1\na:\n- 2\n"


def test_another_configuration_in_the_same_directory_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.begin(shipped())
    journal.begin(shipped(results="elsewhere"))
    with pytest.raises(ConfigError, match=r"of another configuration: documents: 5000 -> 7;"):
        journal.begin(shipped(documents=7))


def test_a_second_process_is_refused_while_the_first_is_at_work(tmp_path: Path) -> None:
    with (
        Journal(tmp_path).lock(),
        pytest.raises(ConfigError, match=f"process {os.getpid()} is at work there"),
        Journal(tmp_path).lock(),
    ):
        pass


KILLED = """
import sys
from pathlib import Path
from rich.console import Console
from tests.training.reproduce.made import python
from training.reproduce.journal import Journal
from training.reproduce.run import run_steps

out = Path(sys.argv[1])
telling = f"open({str(out / 'pid')!r}, 'w').write(str(os.getpid()))"
sleeping = f"import os, time; {telling}; time.sleep(60)"
journal = Journal(out)
with journal.lock() as lock:
    run_steps([(python("first", "1"),), (python("long", sleeping),)], journal, lock, Console())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_the_step_of_a_process_that_was_killed_ends_and_the_next_goes_on(tmp_path: Path) -> None:
    pid, until = tmp_path / "pid", time.monotonic() + 120
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT) as killed:
        while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
    assert pid.exists()
    ended = time.monotonic()
    again = tmp_path / "again"
    run([(python("first", "1"),), (python("long", f"open({str(again)!r}, 'w')"),)], tmp_path)
    assert again.exists()
    assert time.monotonic() - ended < 30  # the long step would have held the lock for 60
    said = (tmp_path / "logs" / "first.log").read_text()
    assert said.count("best of") == 1  # it did not run again


def test_time_counts_once_where_steps_ran_beside_each_other_and_not_in_pauses() -> None:
    def mark(begun: float, ended: float) -> Done:
        return Done(step="a", digest="", begun=begun, ended=ended)

    assert seconds_of([mark(0, 10), mark(2, 5), mark(8, 12), mark(100, 101)]) == 13
