"""Files in a store are there whole or not at all, whatever dies on the way."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from upath import UPath

from pipeline.build.shards import replacing
from pipeline.ingest.writing import atomic_output
from tests.object_store import Breaking, Server
from tests.pipeline.demo_runs import ROOT
from tools.atomic import remove_leftovers, write_text_atomically
from tools.base import OutputError
from tools.places import list_files, put_file, read_bytes

ROW = {"doc_id": "a", "text": "x", "input_ids": [1], "calls": [], "source_text_hash": "0"}


@pytest.fixture
def broken(
    bucket: UPath, s3_server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[int], Breaking]]:
    """A way to the server for the processes that are started next, that breaks."""
    ways = []

    def way(after: int) -> Breaking:
        ways.append(Breaking(s3_server.port, after=after))
        for key, value in s3_server.environment(ways[-1].port).items():
            monkeypatch.setenv(key, value)
        return ways[-1]

    yield way
    for each in ways:
        each.close()


def test_a_file_is_replaced_and_nothing_is_left_beside_it(bucket: UPath) -> None:
    for text in ("first", "second"):
        write_text_atomically(bucket / "one" / "file", text)
        assert read_bytes(bucket / "one" / "file") == text.encode()
    remove_leftovers(bucket / "one")
    assert list(list_files(bucket / "one")) == ["file"]


def test_a_killed_write_shows_nothing_and_loses_nothing(
    bucket: UPath, broken: Callable[[int], Breaking]
) -> None:
    path = bucket / "written" / "file"
    write_text_atomically(path, "first")
    way = broken(100_000)
    writing = (
        "import sys; from upath import UPath; from tools import atomic\n"
        "atomic.write_text_atomically(UPath(sys.argv[1]), 'x' * 1_000_000)"
    )
    writer = subprocess.Popen([sys.executable, "-c", writing, str(path)], cwd=ROOT)
    assert way.reached.wait(120) and writer.poll() is None
    assert read_bytes(path) == b"first"
    writer.kill()
    writer.wait()
    assert list(list_files(bucket / "written")) == ["file"] and read_bytes(path) == b"first"


def test_an_upload_killed_between_its_parts_shows_nothing_and_loses_nothing(
    bucket: UPath, broken: Callable[[int], Breaking], tmp_path: Path
) -> None:
    path, source = bucket / "uploaded" / "file", tmp_path / "file"
    write_text_atomically(path, "first")
    source.write_bytes(b"x" * (12 << 20))
    way = broken(4 << 20)  # of a connection: of three parts the last, smaller one arrives
    uploading = (
        "import sys; from functools import partial; from pathlib import Path\n"
        "from upath import UPath; from tools.places import put_file\n"
        "path = UPath(sys.argv[2])\n"
        "path.fs.put_file = partial(path.fs.put_file, chunksize=5 << 20)  # else 50 MiB\n"
        "put_file(Path(sys.argv[1]), path)"
    )
    writer = subprocess.Popen([sys.executable, "-c", uploading, source, str(path)], cwd=ROOT)
    assert way.reached.wait(120)
    while not (arrived := parts_of_uploads(bucket)):
        assert writer.poll() is None
        time.sleep(0.02)
    assert arrived == [(3, 2 << 20)]
    assert read_bytes(path) == b"first"
    writer.kill()
    writer.wait()
    assert list(list_files(bucket / "uploaded")) == ["file"] and read_bytes(path) == b"first"
    put_file(source, path)
    assert read_bytes(path) == source.read_bytes()


def parts_of_uploads(bucket: UPath) -> list[tuple[int, int]]:
    """Numbers and sizes of the parts that came of uploads that are not complete."""
    uploads = bucket.fs.call_s3("list_multipart_uploads", Bucket=bucket.path.rstrip("/"))
    return [
        (part["PartNumber"], part["Size"])
        for upload in uploads.get("Uploads", [])
        for part in bucket.fs.call_s3(
            "list_parts",
            Bucket=bucket.path.rstrip("/"), Key=upload["Key"], UploadId=upload["UploadId"],
        ).get("Parts", [])
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["ingest", "build"])
def test_a_full_temporary_directory_is_not_blamed_on_the_store(
    bucket: UPath, small_disk: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    out = bucket / name
    says = rf"No space left on device; .*make room in {small_disk} of this machine, or .* TMPDIR,"
    with pytest.raises(OutputError, match=says):
        if name == "ingest":
            with atomic_output(out / "file") as file:
                file.write(os.urandom(1 << 20))
        else:
            with replacing(out, ("dataset",), mark="build.json", shard_rows=500) as [writer]:
                for _ in range(500):
                    writer.add(ROW | {"text": os.urandom(1 << 10).hex()})
    assert list_files(out) == {} and os.listdir(small_disk) == []


def test_a_dataset_whose_upload_fails_is_said_to_be_incomplete(bucket: UPath) -> None:
    name = f"gone-{bucket.path.rstrip('/')}"
    bucket.fs.mkdir(name)
    says = (
        r": the dataset there is incomplete, its build\.json removed: The specified bucket does "
        r"not exist; .*`build` again, which makes it whole"
    )
    with pytest.raises(OutputError, match=says):  # noqa: SIM117
        with replacing(UPath(f"s3://{name}/run"), ("dataset",), mark="build.json", shard_rows=1):
            bucket.fs.rmdir(name)


def test_a_store_that_refuses_is_one_clear_line(bucket: UPath) -> None:
    says = r"file: cannot write: The specified bucket does not exist; nothing finished is lost"
    with pytest.raises(OutputError, match=says):
        write_text_atomically(UPath("s3://no-such-bucket/file"), "text")
