"""`python -m tools index-wikipedia`."""

import gzip
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tools.base import ToolRequest
from tools.cli import main
from tools.wikisearch.tool import WikiSearch

ROOT = Path(__file__).resolve().parents[3]
LINES = [
    json.dumps({"wikipedia_title": f"Title {i}", "text": [f"The word{i} is the name of it."]})
    for i in range(500)
]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    path = tmp_path / "pages.jsonl"
    path.write_text("\n".join([*LINES, "{torn"]))
    return path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["tools", "index-wikipedia", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_the_command_writes_an_index_and_says_what_went_in(
    pages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "idx"
    assert run(monkeypatch, pages, "--out", out) == 0
    assert capsys.readouterr().out == (
        f"{out}: 500 passages of 500 pages (501 lines read; skipped: bad_json 1; "
        "snippets under 5 words: 0)\n"
    )
    (result,) = WikiSearch(index=str(out)).run([ToolRequest(input="word7")])
    assert result.result == "Title 7 > The word7 is the name of it."


@pytest.mark.parametrize("kind", ["missing", "empty", "torn gzip", "not KILT", "directory"])
def test_bad_input_is_one_line_and_no_index(
    kind: str,
    pages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = tmp_path / "bad"
    whole = gzip.compress("\n".join(LINES).encode())
    content = {"empty": b"", "torn gzip": whole[:-100], "not KILT": b'{"text": "web page"}\n'}
    if kind == "directory":
        bad.mkdir()
    elif kind in content:
        bad.write_bytes(content[kind])
    before = set(tmp_path.iterdir())
    assert run(monkeypatch, pages, bad, "--out", tmp_path / "idx") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {bad}: ")
    assert captured.err.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_an_existing_place_is_refused_before_the_work(
    pages: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "never-read", "--out", pages.parent) == 1
    assert "is there already" in capsys.readouterr().err


def build_elsewhere(
    pages: Path, out: Path, *, hash_seed: str, file_limit: int | None = None
) -> str:
    """Run the command in a process of its own; its standard error."""

    def limit_file_size() -> None:
        if file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

    done = subprocess.run(
        [sys.executable, "-m", "tools", "index-wikipedia", str(pages), "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        preexec_fn=limit_file_size,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (file_limit is None), done.stderr
    return done.stderr


def test_the_same_pages_give_the_same_bytes_in_any_process(pages: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    build_elsewhere(pages, first, hash_seed="1")
    build_elsewhere(pages, second, hash_seed="2")
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    assert len(names) == 7
    assert all((first / n).read_bytes() == (second / n).read_bytes() for n in names)


def test_a_write_that_fails_leaves_no_half_index(pages: Path, tmp_path: Path) -> None:
    # No file may grow beyond 8 kB, as on a full disk; the passages alone need more.
    error = build_elsewhere(pages, tmp_path / "idx", hash_seed="0", file_limit=8192)
    assert f"error: {tmp_path / 'idx'}: cannot write: " in error.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["pages.jsonl"]
