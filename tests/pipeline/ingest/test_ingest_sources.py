import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.ingest.ledger import Ledger
from pipeline.ingest.sources import SourceFormat, detect_format
from tools.base import ConfigError, InputError

Run = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]
LINE = b'{"text": "a"}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", LINE, "jsonl"),
        ("en_head.json.gz", gzip.compress(LINE, mtime=0), "jsonl"),
        ("a.json", b"", "jsonl"),
        ("no_suffix", LINE, "jsonl"),
        ("a.txt", b'\xef\xbb\xbf{ "text": 1}', "jsonl"),
        ("a.gz", gzip.compress(LINE, mtime=0)[:-4], "jsonl"),
        ("a.parquet", b"", "parquet"),
        ("a.data", b"PAR1xxxx", "parquet"),
        ("a.warc.wet", b"", "warc"),
        ("a.wet.gz", gzip.compress(b"", mtime=0), "warc"),
        ("a.warc.txt", b"x", "warc"),
        ("a.jsonl", b"WARC/1.0\r\n", "warc"),
        ("a", gzip.compress(b"WARC/1.1\r\n", mtime=0), "warc"),
        ("notes.md", b"# Notes", None),
        ("table.csv", b"a,b\n1,2\n", None),
    ],
)
def test_format_is_told_by_content_and_name(
    tmp_path: Path, name: str, content: bytes, expected: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert detect_format(tmp_path / name) == expected


def test_directory_is_walked_in_sorted_order_without_sidecars(
    tmp_path: Path, run: Run, rows: Rows, screen: io.StringIO
) -> None:
    for name, text in [
        ("0001/en_head.jsonl", "second"),
        ("0000/en_head.jsonl", "first"),
        ("0000/en_head.jsonl.index", "sidecar"),
        (".cache/x.jsonl", "hidden"),
        ("README.md", "notes"),
    ]:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"text": "%s"}\n' % text if text != "notes" else "# Notes")  # noqa: UP031
    ledger = run(tmp_path / "data")
    assert [entry.output for entry in ledger.files] == [
        "0000__en_head.jsonl.parquet",
        "0001__en_head.jsonl.parquet",
    ]
    assert [row["text"] for row in rows("0000__en_head.jsonl.parquet")] == ["first"]
    assert "passed over, of no known format: README.md" in screen.getvalue()


def test_equal_names_do_not_overwrite_each_other(tmp_path: Path, run: Run) -> None:
    paths = [tmp_path / directory / "x.jsonl" for directory in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text('{"text": "%s"}' % path.parent.name)  # noqa: UP031
    outputs = [entry.output for entry in run(*paths).files]
    assert outputs == ["x.jsonl.parquet", "x.jsonl-2.parquet"]


def test_file_reached_twice_is_read_once(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "data" / "a.jsonl"
    path.parent.mkdir()
    path.write_bytes(LINE)
    [entry] = run(path, path.parent, path).files
    assert (entry.read, entry.kept) == (1, 1)


def test_output_inside_the_input_is_not_read_back(tmp_path: Path, run: Run, out: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    run(tmp_path)
    [entry] = run(tmp_path).files
    assert out.is_relative_to(tmp_path) and entry.output == "a.jsonl.parquet"


def test_forced_format_overrides_name_and_content(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b" " * 5000 + LINE)
    with pytest.raises(InputError, match=r"a\.md: neither JSON lines nor Parquet nor WARC"):
        run(path)
    assert run(path, source_format=SourceFormat.JSONL).files[0].kept == 1


def test_missing_path_is_one_line(tmp_path: Path, run: Run, out: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(tmp_path / "nowhere")
    assert str(caught.value) == f"{tmp_path}/nowhere: no such file or directory"
    assert not out.exists()


def test_directory_without_usable_file_is_one_line(tmp_path: Path, run: Run) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.md").write_text("# x")
    with pytest.raises(InputError, match="data: no JSON lines, Parquet or WARC file to ingest"):
        run(tmp_path / "data")


def test_input_inside_the_output_is_refused(tmp_path: Path, run: Run, out: Path) -> None:
    out.mkdir()
    (out / "a.jsonl").write_bytes(LINE)
    with pytest.raises(ConfigError, match="lies inside --out"):
        run(out / "a.jsonl")


def test_output_directory_with_other_documents_is_refused(
    tmp_path: Path, run: Run, out: Path
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_bytes(LINE)
    second.write_bytes(b'{"text": "b"}')
    run(first)
    with pytest.raises(ConfigError, match=r"a\.jsonl\.parquet in it is not made from these inputs"):
        run(second)
    assert (out / "a.jsonl.parquet").exists()


def test_output_that_is_a_file_is_one_line(tmp_path: Path, run: Run, out: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINE)
    out.write_text("in the way")
    with pytest.raises(ConfigError, match=f"--out {out}: cannot be made: File exists"):
        run(tmp_path / "a.jsonl")


def test_limit_below_one_is_refused(tmp_path: Path, run: Run) -> None:
    with pytest.raises(ConfigError, match="--max-bytes 0"):
        run(tmp_path, max_bytes=0)


def test_markup_in_a_file_name_is_shown_as_it_is(
    tmp_path: Path, run: Run, screen: io.StringIO
) -> None:
    (tmp_path / "[red]a[.jsonl").write_bytes(LINE)
    run(tmp_path / "[red]a[.jsonl")
    assert "[red]a[.jsonl" in screen.getvalue()
