"""Bad input that only a running annotation meets: rows, torn pages, workers, disks, Ctrl-C."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.ray_session import stages_alive
from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import (
    DEMO,
    ROOT,
    demo_config,
    environment,
    pipeline_here,
    unit_bytes,
)
from tools.places import Place

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

PROMPTS = ROOT / "pipeline" / "configs" / "demo_prompts"
CALCULATOR = {"prompt": str(PROMPTS / "Calculator.txt"), "k": 1, "m": 1}
MODEL = {"replicas": 1, "token_budget": 1024}
SMALL: dict[str, Any] = {
    "engine": "pipeline.engines.scripted:ScriptedEngine",  # no model where none is needed
    "sampling": {"max_new_tokens": 8},
    "tools": {"Calculator": CALCULATOR},
}
SUM = "The first box holds 12 apples, the second 30, and the two hold a total of 42 apples."
WORD = "x" * 59_000 + "=5" + "y" * 1_000  # 60 kB without white space, a cue within
ROWS: dict[str, bytes | None] = {
    "good": SUM.encode(),
    "invalid utf-8": b"total of 5 \xff\xfe",
    "null": None,
    "empty": b"",
    "blank": b" \n\t ",
    "nul": b"a total of 5\x00 and \x00 more",
    "10 MB line": b"a total of 5 " * 800_000,
    "60 kB word": WORD.encode(),
    "odd": "a total of 5 \U0001f469\u200d\U0001f469\u200d\U0001f467 e\u0301\u0302 \ufeff".encode(),
    "right to left": "\u202e\u05e9\u05dc\u05d5\u05dd = 5 \u0645\u0631\u062d\u0628\u0627".encode(),
    "markup": b"a total of 5 [bold] [/red] <script>alert(1)</script> -> ] [Calculator(1)]",
}
DROPPED = {"invalid_utf8": 1, "no_text": 1, "empty_text": 2, "too_large": 1}


def annotate(config: Path, run: Place, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return pipeline_here("annotate", config, "--run", run, check=check)


def the_error(failed: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error of a command that exited with 1."""
    assert failed.returncode == 1, failed.stderr
    assert failed.stderr.startswith("error: ") and failed.stderr.count("\n") == 1, failed.stderr
    return failed.stderr.removeprefix("error: ").rstrip("\n")


@pytest.fixture(scope="module")
def rows_run(tmp_path_factory: pytest.TempPathFactory, local_ray: None) -> Path:
    """A run over one document of every odd kind, built and reported."""
    directory = tmp_path_factory.mktemp("rows")
    texts = pa.array(list(ROWS.values()), pa.large_binary()).view(pa.large_string())
    pq.write_table(pa.table({"doc_id": list(ROWS), "text": texts}), directory / "documents.parquet")
    run = directory / "run"
    annotate(demo_config(directory, 0, unit_documents=16, **SMALL), run)
    pipeline_here("build", run)
    pipeline_here("report", run)
    return run


def test_unusable_rows_are_counted_and_cost_no_other(rows_run: Path) -> None:
    [mark] = RunDir(rows_run).done_marks()
    assert mark.documents == len(ROWS)
    unoffered = mark.dropped["not_offered"]  # parts of the word without the cue
    assert mark.dropped == DROPPED | {"not_offered": unoffered}
    written = pq.read_table(rows_run / "units" / "0000000.parquet").to_pylist()
    reasons = {row["doc_id"]: row["dropped"] for row in written}
    for usable in ("good", "nul", "odd", "right to left", "markup"):
        assert reasons[usable] is None, usable
    assert mark.rows == len(written)


def test_usable_texts_are_kept_byte_for_byte(rows_run: Path) -> None:
    written: dict[str, str] = {}
    usable: dict[str, bool] = {}
    for row in pq.read_table(rows_run / "units" / "0000000.parquet").to_pylist():
        doc_id = row["doc_id"].split("#")[0]
        written[doc_id] = written.get(doc_id, "") + row["text"]
        usable[doc_id] = row["dropped"] in (None, "not_offered")
    assert list(written) == list(ROWS)
    for doc_id, text in ROWS.items():
        expected = text if usable.get(doc_id) else b""
        assert written[doc_id].encode() == expected, doc_id


def test_a_word_longer_than_the_context_is_split_and_offered_in_part(rows_run: Path) -> None:
    parts = [
        row
        for row in pq.read_table(rows_run / "units" / "0000000.parquet").to_pylist()
        if row["doc_id"].startswith("60 kB word#")
    ]
    assert [row["part"] for row in parts] == list(range(1, len(parts) + 1))
    assert len(parts) > 10
    assert [row["text"].count("=5") for row in parts if row["dropped"] is None] == [1]
    [offered] = [row for row in parts if row["dropped"] is None]
    assert offered["offers"] == [{"tool": "Calculator", "reason": "cue"}]


def test_every_command_shows_a_run_over_odd_texts(rows_run: Path) -> None:
    shown = pipeline_here("status", rows_run).stdout
    for reason in DROPPED:
        assert f"dropped: {reason}" in shown
    pipeline_here("inspect", rows_run)
    assert "<script>alert" not in (rows_run / "report" / "index.html").read_text()


def two_files(directory: Path) -> tuple[Path, Path]:
    """Two files of four documents that the Calculator is offered."""
    files = directory / "in" / "a.parquet", directory / "in" / "b.parquet"
    files[0].parent.mkdir()
    for path in files:
        ids = [f"{path.stem}{number}" for number in range(4)]
        pq.write_table(pa.table({"doc_id": ids, "text": [SUM] * 4}), path, compression="none")
    return files


def torn(path: Path) -> None:
    """The texts overwritten with zeros; the footer and the size of the file stay."""
    content = path.read_bytes()
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(1)
    start, size = chunk.dictionary_page_offset, chunk.total_compressed_size
    path.write_bytes(content[:start] + bytes(size) + content[start + size :])


def test_a_torn_page_stops_the_run_and_its_repair_continues_it(tmp_path: Path) -> None:
    whole, broken = two_files(tmp_path)
    content = broken.read_bytes()
    torn(broken)
    run = RunDir(tmp_path / "run")
    config = demo_config(tmp_path, 0, input=str(whole.parent), **SMALL | {"unit_documents": 1})
    line = the_error(annotate(config, run.path, check=False))
    assert line.startswith(f"{broken}: cannot read its rows: ")
    finished = unit_bytes(run.path)
    broken.write_bytes(content)
    annotate(config, run.path)
    assert len(run.done_marks()) == 8
    assert finished.items() <= unit_bytes(run.path).items()


def test_torn_weights_are_named_and_whole_ones_begin_the_run(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(DEMO / "model", model)
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[:-1000])
    config = demo_config(tmp_path, 4, model={"path": str(model)}, **SMALL | {"engine": MODEL})
    line = the_error(annotate(config, tmp_path / "run", check=False))
    assert line.startswith(f"{model}: the model cannot be loaded: ")
    (model / "model.safetensors").write_bytes(weights)
    assert "in 1 units" in annotate(config, tmp_path / "run").stdout


def test_tools_that_cannot_load_are_one_line_however_many_try(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("no page\n")
    options = {"actors": 2, "options": {"corpus": str(corpus)}}
    config = demo_config(tmp_path, 4, **SMALL | {"tools": {"WikiSearch": options}})
    line = the_error(annotate(config, tmp_path / "run", check=False))
    assert line.startswith(f"{corpus}: no passage in 1 lines (bad_json 1); expected ")


def test_a_full_disk_stops_the_run_and_room_continues_it(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    noise = [os.urandom(24_000).hex() for _ in range(3)]  # 24 kB each, however compressed
    table = {"doc_id": ["0", "1", "2"], "text": noise}
    pq.write_table(pa.table(table), tmp_path / "in" / "a.parquet")
    run = RunDir(small_disk / "run")
    config = demo_config(
        tmp_path, 0, **SMALL | {"unit_documents": 1, "input": str(tmp_path / "in")}
    )
    line = the_error(annotate(config, run.path, check=False))
    assert "cannot write: " in line and "No space left on device" in line
    assert "make room and run the same command again" in line
    finished = unit_bytes(run.path)
    assert 1 <= len(run.done_marks()) <= 2
    assert not list(run.path.rglob(".*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    annotate(config, run.path)
    assert len(run.done_marks()) == 3
    assert finished.items() <= unit_bytes(run.path).items()


def test_ctrl_c_is_one_line_and_leaves_what_is_finished(
    tmp_path: Path, ray_directory: Path
) -> None:
    run = RunDir(tmp_path / "run")
    # A unit each, of which Ray holds some at a time: it cannot end soon after the first is written.
    config = demo_config(tmp_path, 240, **SMALL | {"unit_documents": 1})
    command = [
        sys.executable, "-m", "pipeline", "annotate", str(config), "--run", str(run.path),
        "--no-dashboard",
    ]  # fmt: skip
    # A session of its own: Ctrl-C reaches every process of the terminal's foreground group.
    driver = subprocess.Popen(
        command, cwd=ROOT, env=environment(ray_directory), text=True, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    while not run.marked_units():
        if driver.poll() is not None:
            pytest.fail(f"it ended before it could be interrupted: {driver.communicate()[1]}")
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGINT)
    _, shown = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert shown == "interrupted; what is finished stays, the same command continues\n"
    assert 1 <= len(unit_bytes(run.path)) < len(run.units())
    assert not list(run.path.rglob(".*.tmp"))


@pytest.mark.parametrize(
    ("breaks", "actors", "says"),
    [
        (
            "where it runs",
            1,
            "tool Calculator: tests.pipeline.broken_tool:BrokenCalculator cannot ",
        ),
        ("its contract", 0, "tool Calculator: document (batch): got "),
    ],
)
def test_what_breaks_inside_ray_is_one_line(
    tmp_path: Path, breaks: str, actors: int, says: str
) -> None:
    # Enough samples that the model asks the tool something, whatever its weights.
    tool = CALCULATOR | {"factory": "tests.pipeline.broken_tool:BrokenCalculator", "k": 5, "m": 5}
    tool |= {"actors": actors, "options": {"breaks": breaks}}
    changes = {"tools": {"Calculator": tool}, "sampling": {"max_new_tokens": 24}}
    config = demo_config(tmp_path, 12, **SMALL | changes)
    assert says in the_error(annotate(config, tmp_path / "run", check=False))
    assert not stages_alive()
