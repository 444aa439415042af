"""Files that are cut or broken: what was good is kept, and the user is told."""

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.ingest.ledger import Ledger
from tools.base import InputError

Run = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]


def _lines(number: int) -> bytes:
    letters = random.Random(7)
    return b"".join(
        json.dumps({"text": f"{n} {letters.getrandbits(2000)}"}).encode() + b"\n"
        for n in range(number)
    )


def test_rows_before_the_cut_of_a_gzip_are_kept(
    tmp_path: Path, run: Run, rows: Rows, out: Path
) -> None:
    path = tmp_path / "en_head_0000.json.gz"
    whole = gzip.compress(_lines(300))
    path.write_bytes(gzip.compress(_lines(10)) + whole[: len(whole) // 2])
    with pytest.raises(InputError) as caught:
        run(path)
    entry = Ledger.model_validate_json((out / "ingest.json").read_bytes()).files[0]
    # The 10 rows of the first member come again in the second one.
    assert entry.rejected == {"duplicate_doc_id": 10, "truncated_gzip": 1}
    assert 120 < entry.kept < 180
    assert len(rows("en_head_0000.json.gz.parquet")) == entry.kept
    assert str(caught.value) == (
        f"{path}: truncated_gzip after {entry.read - 1} records, of which {entry.kept} are kept; "
        "replace the file, or accept what there is with --allow-truncated"
    )


def test_cut_gzip_is_no_failure_when_allowed(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(_lines(100))[:-9])
    [entry] = run(path, allow_truncated=True).files
    assert entry.kept == 100 and entry.rejected == {"truncated_gzip": 1}


@pytest.mark.parametrize(
    "tail", [b"no gzip here", gzip.compress(b"x" * 99, mtime=0)[:10] + b"\xff" * 40]
)
def test_garbage_after_a_gzip_member_is_told(tmp_path: Path, run: Run, tail: bytes) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(_lines(20)) + tail)
    with pytest.raises(InputError, match="corrupt_gzip after 20 records, of which 20 are kept"):
        run(path)


def test_rows_before_the_cut_of_a_zstd_are_kept(tmp_path: Path, run: Run, rows: Rows) -> None:
    path = tmp_path / "a.jsonl.zst"
    whole = pa.Codec("zstd").compress(_lines(2000), asbytes=True)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged_zstd"):
        run(path)
    assert 500 < len(rows("a.jsonl.zst.parquet")) < 1500


def test_a_bad_file_does_not_stop_the_others(
    tmp_path: Path, run: Run, rows: Rows, screen: io.StringIO, out: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.parquet").write_bytes(b"PAR1 torn")
    (data / "b.jsonl").write_bytes(b'{"text": "good"}\n')
    with pytest.raises(InputError, match=r"1 of 2 files: .*a\.parquet: not a readable Parquet"):
        run(data)
    assert [row["text"] for row in rows("b.jsonl.parquet")] == ["good"]
    assert sorted(path.name for path in out.iterdir()) == ["b.jsonl.parquet", "ingest.json"]
    assert "1 read = 1 kept + 0 rejected" in screen.getvalue()


def test_error_line_names_three_files_and_counts_the_rest(tmp_path: Path, run: Run) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for n in range(5):
        (data / f"{n}.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(InputError) as caught:
        run(data)
    message = str(caught.value)
    assert message.startswith("5 of 5 files: ") and message.endswith(
        "; and 2 more, see ingest.json"
    )
    assert "2.parquet" in message and "3.parquet" not in message and "\n" not in message
