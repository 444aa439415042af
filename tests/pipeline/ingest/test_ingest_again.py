"""A second run: finished files are not read again, and nothing comes out differently."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.ingest.command import ingest
from pipeline.ingest.ledger import Ledger
from tests.small_disk import mounted
from tools.base import ConfigError, InputError

Run = Callable[..., Ledger]
REPOSITORY = Path(__file__).parents[3]

INGEST_IN_A_PROCESS = """
import resource, sys
from pathlib import Path
from pipeline.ingest.command import ingest
from tools.base import ToolformerError
limit = int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    ingest([Path(sys.argv[1])], Path(sys.argv[2]))
except ToolformerError as error:
    sys.exit(f"Error: {error}")
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    _write(path / "a.jsonl", "one", "two")
    _write(path / "b.jsonl", "two", "three")
    _write(path / "c.jsonl", "four")
    return path


def _write(path: Path, *texts: str) -> None:
    path.write_text("".join(f'{{"text": "{text}"}}\n' for text in texts))


def _parquet(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.glob("*.parquet")}


def _inodes(out: Path) -> dict[str, int]:
    return {path.name[0]: path.stat().st_ino for path in out.glob("*.parquet")}


def test_unchanged_files_are_not_written_again(data: Path, run: Run, out: Path) -> None:
    first = run(data)
    before, bytes_before = _inodes(out), _parquet(out)
    second = run(data)
    assert second == first
    assert _inodes(out) == before and _parquet(out) == bytes_before


def test_only_the_repaired_file_is_read_again(
    data: Path, run: Run, out: Path, tmp_path: Path
) -> None:
    (data / "aa.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(InputError, match=r"aa\.parquet"):
        run(data)
    before = _inodes(out)
    (data / "aa.parquet").unlink()
    _write(data / "aa.jsonl", "five")
    run(data)
    after = {path.name: path.stat().st_ino for path in out.glob("*.parquet")}
    assert after["a.jsonl.parquet"] == before["a"]
    assert after["b.jsonl.parquet"] == before["b"]
    assert after["c.jsonl.parquet"] == before["c"]
    ingest([data], tmp_path / "fresh")
    assert _parquet(out) == _parquet(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("a.jsonl", ["one"]),  # b's "two" is no duplicate any more
        ("a.jsonl", ["one", "two", "four"]),  # c's "four" is one now
        ("0.jsonl", ["three", "four"]),  # a new first file
        ("b.jsonl", ["zero"]),
    ],
)
def test_changed_input_gives_what_a_fresh_run_gives(
    data: Path, run: Run, out: Path, tmp_path: Path, name: str, texts: list[str]
) -> None:
    run(data)
    _write(data / name, *texts)
    again = ingest([data], out)
    fresh = ingest([data], tmp_path / "fresh")
    assert again == fresh
    assert _parquet(out) == _parquet(tmp_path / "fresh")


def test_other_limit_reads_again(data: Path, run: Run) -> None:
    run(data)
    assert sum(entry.kept for entry in run(data, max_bytes=3).files) == 2  # one, two


def test_torn_output_is_made_again(data: Path, run: Run, out: Path) -> None:
    run(data)
    whole = _parquet(out)
    (out / "a.jsonl.parquet").write_bytes(whole["a.jsonl.parquet"][:50])
    (out / "c.jsonl.parquet").unlink()
    run(data)
    assert _parquet(out) == whole


def test_file_that_became_unusable_leaves_no_stale_documents(
    data: Path, run: Run, out: Path
) -> None:
    run(data)
    (data / "c.jsonl").write_text("not json\n")
    run(data)
    assert sorted(_parquet(out)) == ["a.jsonl.parquet", "b.jsonl.parquet"]


def test_cut_file_is_told_again_without_being_read_again(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n')[:-3])
    for _ in range(2):
        with pytest.raises(InputError, match="truncated_gzip"):
            run(path)


def test_foreign_ledger_is_one_line(data: Path, run: Run, out: Path) -> None:
    out.mkdir()
    (out / "ingest.json").write_text('{"mine": 1}')
    with pytest.raises(ConfigError, match=r"ingest\.json: not a record of an ingest \(.*mine"):
        run(data)


def _in_a_process(data: Path, out: Path, *, limit: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", INGEST_IN_A_PROCESS]
    return subprocess.run(
        [*command, str(data), str(out), str(limit)],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _one_large_file(data: Path) -> None:
    """b.jsonl becomes 600 kB that do not compress; a and c stay small."""
    _write(data / "b.jsonl", *(os.urandom(100).hex() for _ in range(6000)))


def test_file_size_limit_keeps_finished_files(data: Path, out: Path) -> None:
    _one_large_file(data)
    failed = _in_a_process(data, out, limit=100_000)
    assert failed.returncode == 1
    assert failed.stderr == (
        f"Error: {out}/b.jsonl.parquet: cannot be written: File too large; finished files stay, "
        "make room and run the same command again\n"
    )
    assert sorted(path.name for path in out.iterdir()) == ["a.jsonl.parquet", "ingest.json"]
    before = _inodes(out)
    assert _in_a_process(data, out, limit=0).returncode == 0
    assert _inodes(out)["a"] == before["a"] and len(_parquet(out)) == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KiB, mounted for one test."""
    with mounted(tmp_path / "disk", "200k") as place:
        yield place


def test_full_disk_is_one_line_and_keeps_finished_files(data: Path, small_disk: Path) -> None:
    _one_large_file(data)
    out = small_disk / "documents"
    failed = _in_a_process(data, out, limit=0)
    assert failed.returncode == 1
    assert failed.stderr == (
        f"Error: {out}/b.jsonl.parquet: cannot be written: No space left on device; finished "
        "files stay, make room and run the same command again\n"
    )
    assert sorted(path.name for path in out.iterdir()) == ["a.jsonl.parquet", "ingest.json"]
