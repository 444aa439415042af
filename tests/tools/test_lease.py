"""One writer at a time where there is no lock of a file system."""

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tests.pipeline.demo_runs import ROOT
from tools.base import InputError, OutputError
from tools.lease import STALE_S, lease
from tools.places import list_files, put_bytes, read_bytes, remove

HELD = "another process is writing to this run"
TAKEN = "another process may have taken this run over"


def record(directory: UPath) -> dict[str, Any]:
    """What the only lease in `directory` says."""
    [name] = list_files(directory)
    content: dict[str, Any] = json.loads(read_bytes(directory / name))
    return content


def wait_for_a_lease(directory: UPath) -> None:
    while not list_files(directory):
        time.sleep(0.05)


def test_a_second_writer_is_refused_and_told_who_holds_it(bucket: UPath) -> None:
    directory = bucket / "two" / "_lock"
    with lease(directory):
        who = f"process {os.getpid()} on .* since .* UTC, last seen [0-9]+ s ago"
        with pytest.raises(InputError, match=rf"{bucket}two: {HELD} \({who}\)"), lease(directory):
            pass
        assert record(directory)["pid"] == os.getpid()
    assert list_files(directory) == {}
    with lease(directory):
        pass


def put_another(directory: UPath, **known: Any) -> UPath:
    """A lease of another machine, seen now, but for what is `known`."""
    now = time.time()
    holder = {"host": "far", "machine": "another", "pid": 1, "pid_start": "5"}
    holder |= {"since": now, "renewed": now, "holding": True} | known
    put_bytes(directory / "theirs.json", json.dumps(holder).encode())
    return directory / "theirs.json"


def test_a_writer_of_another_machine_is_waited_for_two_minutes(bucket: UPath) -> None:
    directory = bucket / "elsewhere" / "_lock"
    for age, dead in ((STALE_S - 20, False), (STALE_S + 1, True)):
        put_another(directory, since=0.0, renewed=time.time() - age)
        if dead:
            with lease(directory):
                assert record(directory)["pid"] == os.getpid()
        else:
            with pytest.raises(InputError, match="process 1 on far since 1970"), lease(directory):
                pass
            assert list(list_files(directory)) == ["theirs.json"]
    assert list_files(directory) == {}


def test_a_process_is_known_by_its_number_and_its_start(bucket: UPath) -> None:
    directory = bucket / "numbered" / "_lock"
    with lease(directory):
        mine = record(directory)
    put_another(directory, **mine)
    with pytest.raises(InputError, match=f"process {os.getpid()} on "), lease(directory):
        pass
    put_another(directory, **mine | {"pid_start": str(int(mine["pid_start"]) - 1)})
    with lease(directory):
        assert record(directory)["pid_start"] == mine["pid_start"]


def test_a_killed_writer_of_this_machine_is_not_waited_for(bucket: UPath) -> None:
    directory = bucket / "killed" / "_lock"
    holding = (
        "import sys, time; from upath import UPath; from tools.lease import lease\n"
        "with lease(UPath(sys.argv[1])): time.sleep(100)"
    )
    holder = subprocess.Popen([sys.executable, "-c", holding, str(directory)], cwd=ROOT)
    wait_for_a_lease(directory)
    with pytest.raises(InputError, match=f"process {holder.pid} "), lease(directory):
        pass
    holder.kill()
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)  # it stays, as a zombie
    with lease(directory):
        assert record(directory)["pid"] == os.getpid()
    holder.wait()


def test_a_lease_is_renewed_while_it_is_held(bucket: UPath) -> None:
    directory = bucket / "renewed" / "_lock"
    with lease(directory, renew_s=0.05):
        first = record(directory)
        while record(directory)["renewed"] == first["renewed"]:
            time.sleep(0.02)
        assert record(directory)["since"] == first["since"]


def test_a_writer_whose_file_was_removed_is_told_and_puts_it_not_again(bucket: UPath) -> None:
    directory = bucket / "lost" / "_lock"
    with pytest.raises(OutputError, match=f"lost: {TAKEN}"), lease(directory) as held:
        held.check()
        [name] = list_files(directory)
        remove(directory / name)
        held.renew()
        with pytest.raises(OutputError, match=TAKEN):
            held.check()
        held.renew()
        assert list_files(directory) == {}
    assert list_files(directory) == {}


@pytest.mark.parametrize(
    ("case", "known", "lost"),
    [
        # Another writer found this one dead, which made its file anew at the same moment.
        ("later", {}, True),
        # It, too, finds a file made anew, that of the writer it took over from: it goes on.
        ("earlier", {"since": 5.0}, False),
        ("looking", {"holding": False}, False),
        ("dead", {"renewed": 5.0}, False),
    ],
)
def test_a_renewal_looks_who_else_is_there(
    bucket: UPath, case: str, known: dict[str, Any], lost: bool
) -> None:
    directory = bucket / case / "_lock"
    told = pytest.raises(OutputError, match=TAKEN) if lost else nullcontext()
    with told, lease(directory) as held:
        theirs = put_another(directory, **known)
        held.renew()
        with pytest.raises(OutputError, match=TAKEN) if lost else nullcontext():
            held.check()
        remove(theirs)


def test_a_writer_that_was_not_seen_for_two_minutes_does_not_come_back(
    bucket: UPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = bucket / "late" / "_lock"
    with pytest.raises(OutputError, match=TAKEN), lease(directory) as held:
        before, now = record(directory), time.time()
        monkeypatch.setattr(time, "time", lambda: now + STALE_S - 1)
        held.check()
        monkeypatch.setattr(time, "time", lambda: now + STALE_S + 1)
        with pytest.raises(OutputError, match=TAKEN):
            held.check()
        held.renew()
        assert record(directory) == before


def test_a_file_that_is_no_lease_is_named(bucket: UPath) -> None:
    directory = bucket / "foreign" / "_lock"
    put_bytes(directory / "note.txt", b"mine")
    with pytest.raises(InputError, match=r"note\.txt: not a record of a writer"), lease(directory):
        pass


def test_a_missing_bucket_is_one_clear_line(bucket: UPath, tmp_path: Path) -> None:
    place = UPath("s3://no-such-bucket/run/_lock")
    with pytest.raises(OutputError, match="no run can be written there: The specified bucket"):  # noqa: SIM117
        with lease(place):
            pass
