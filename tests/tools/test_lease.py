"""One writer at a time where there is no lock of a file system."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from tests.pipeline.demo_runs import ROOT
from tools.base import InputError, OutputError
from tools.lease import STALE_S, lease
from tools.places import list_files, put_bytes, read_bytes, remove

HELD = "another process is writing to this run"


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


def test_a_writer_of_another_machine_is_waited_for_two_minutes(bucket: UPath) -> None:
    directory = bucket / "elsewhere" / "_lock"
    for age, dead in ((STALE_S - 20, False), (STALE_S + 1, True)):
        holder = {"host": "far", "machine": "another", "pid": 1, "since": 0.0}
        holder["renewed"] = time.time() - age
        put_bytes(directory / "theirs.json", json.dumps(holder).encode())
        if dead:
            with lease(directory):
                assert record(directory)["pid"] == os.getpid()
        else:
            with pytest.raises(InputError, match="process 1 on far since 1970"), lease(directory):
                pass
            assert list(list_files(directory)) == ["theirs.json"]
    assert list_files(directory) == {}


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
    holder.wait()
    with lease(directory):
        assert record(directory)["pid"] == os.getpid()


def test_a_lease_is_renewed_while_it_is_held(bucket: UPath) -> None:
    directory = bucket / "renewed" / "_lock"
    with lease(directory, renew_s=0.05):
        first = record(directory)
        while record(directory)["renewed"] == first["renewed"]:
            time.sleep(0.02)
        assert record(directory)["since"] == first["since"]


def test_a_writer_that_was_thought_dead_is_told_at_its_end(bucket: UPath) -> None:
    directory = bucket / "lost" / "_lock"
    with (
        pytest.raises(OutputError, match="lost: another process took this run over"),
        lease(directory, renew_s=0.05),
    ):
        [name] = list_files(directory)
        remove(directory / name)
        time.sleep(0.5)
    assert list_files(directory) == {}


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
