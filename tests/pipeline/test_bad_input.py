"""Bad input by the command line, found before anything is started: one line says what to mend."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import DEMO, ROOT, demo_config

TWO = {"doc_id": ["a", "b"], "text": ["one", "two"]}
Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """The one line on standard error with which `python -m pipeline ARGUMENTS` exits with 1.

    In this process, since starting fifty interpreters takes minutes.
    """
    monkeypatch.chdir(ROOT)

    def refused(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["pipeline", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = capsys.readouterr()
        assert left.value.code == 1, shown.err
        assert shown.out == ""
        assert shown.err.startswith("error: ") and shown.err.count("\n") == 1, shown.err
        return shown.err.removeprefix("error: ").rstrip("\n")

    return refused


def with_documents(directory: Path, table: pa.Table | dict[str, Any], **changes: Any) -> Path:
    """A configuration of the demo over these documents."""
    table = table if isinstance(table, pa.Table) else pa.table(table)
    pq.write_table(table, directory / "documents.parquet")
    return demo_config(directory, 0, **changes)


def test_the_real_process_ends_with_one_line_and_exit_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "annotate", str(tmp_path / "none.yaml")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"error: {tmp_path}/none.yaml: no such configuration file\n"


@pytest.mark.parametrize("command", ["annotate", "plan", "preview"])
def test_a_missing_input_file_is_named(tmp_path: Path, refusal: Refusal, command: str) -> None:
    config = demo_config(tmp_path, 4, input=str(tmp_path / "nowhere.parquet"))
    assert refusal(command, config) == f"{tmp_path}/nowhere.parquet: no such file or directory"


@pytest.mark.parametrize("command", ["annotate", "plan", "preview"])
def test_a_missing_column_is_named_with_those_there(
    tmp_path: Path, refusal: Refusal, command: str
) -> None:
    config = with_documents(tmp_path, {"doc_id": ["a"], "content": ["one"]})
    line = refusal(command, config)
    assert "documents.parquet: no column text; it has doc_id, content" in line
    assert "pipeline ingest" in line


def test_parquet_without_rows_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    config = with_documents(tmp_path, pa.table(TWO).slice(0, 0))
    for command in ("annotate", "plan"):
        assert "no documents, every file has 0 rows" in refusal(command, config)
    assert "no document of the input is offered" in refusal("preview", config)


def test_a_directory_without_parquet_is_refused(tmp_path: Path, refusal: Refusal) -> None:
    (tmp_path / "in").mkdir()
    config = demo_config(tmp_path, 4, input=str(tmp_path / "in"))
    assert refusal("plan", config) == f"{tmp_path}/in: no .parquet file in this directory"


@pytest.mark.parametrize("command", ["annotate", "plan", "preview"])
@pytest.mark.parametrize("content", ["", "PAR1", "no parquet at all", None])
def test_a_torn_or_foreign_file_is_named(
    tmp_path: Path, refusal: Refusal, command: str, content: str | None
) -> None:
    config = with_documents(tmp_path, TWO)
    path = tmp_path / "documents.parquet"
    path.write_bytes(path.read_bytes()[:-7] if content is None else content.encode())
    assert f"{path}: not a readable Parquet file" in refusal(command, config)


@pytest.mark.parametrize("command", ["plan", "preview"])
def test_a_torn_data_page_is_named(tmp_path: Path, refusal: Refusal, command: str) -> None:
    config = with_documents(tmp_path, {"doc_id": ["a"], "text": ["1 + 2 = 3"]})
    tear_page(tmp_path / "documents.parquet", "text")
    assert "documents.parquet: cannot read its rows" in refusal(command, config)


def tear_page(path: Path, column: str) -> None:
    """Zeros over the pages of one column; the footer and the size of the file stay."""
    metadata = pq.ParquetFile(path).metadata
    chunk = metadata.row_group(0).column(metadata.schema.names.index(column))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)


@pytest.mark.parametrize("column", ["doc_id", "text"])
def test_a_column_of_the_wrong_type_is_named(tmp_path: Path, refusal: Refusal, column: str) -> None:
    config = with_documents(tmp_path, TWO | {column: [1, 2]})
    line = refusal("plan", config)
    assert f"documents.parquet: column {column} is int64, expected text" in line


def test_a_doc_id_that_stands_twice_is_named(tmp_path: Path, refusal: Refusal) -> None:
    config = with_documents(tmp_path, {"doc_id": ["a", "same", "same"], "text": ["x", "y", "z"]})
    for command in ("annotate", "plan"):
        assert "documents.parquet: doc_id 'same' stands for two documents" in refusal(
            command, config
        )


def test_a_missing_doc_id_is_named(tmp_path: Path, refusal: Refusal) -> None:
    config = with_documents(tmp_path, TWO | {"doc_id": pa.array(["a", None])})
    assert "documents.parquet: a document has no doc_id (null)" in refusal("plan", config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run: [1", "not readable as YAML"),
        ("", "expected a mapping of settings, got NoneType"),
        ("just words", "expected a mapping of settings, got str"),
        ("\x00", "not readable as YAML"),
    ],
)
def test_what_is_no_configuration_is_named(
    tmp_path: Path, refusal: Refusal, text: str, problem: str
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    for command in ("annotate", "plan", "preview"):
        assert refusal(command, path).startswith(f"{path}: {problem}")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sede": 1}, "sede: "),
        ({"seed": "one"}, "seed: "),
        ({"unit_documents": 0}, "unit_documents: "),
        ({"engine": {"replica": 1}}, "engine.replica: "),
        ({"tools": []}, "tools: "),
        ({"tools": {"Calculator": {"tau_q": 1}}}, "tools.Calculator.tau_q: "),
        ({"tools": {"[Calculator]": {}}}, "'[Calculator]' is not a tool name"),
    ],
)
def test_a_wrong_key_or_type_is_named(
    tmp_path: Path, refusal: Refusal, changes: dict[str, Any], problem: str
) -> None:
    config = demo_config(tmp_path, 4, **changes)
    line = refusal("annotate", config)
    assert line.startswith(f"{config}: ") and problem in line


def test_an_engine_of_ones_own_that_is_not_there_is_named_letter_by_letter(
    tmp_path: Path, refusal: Refusal
) -> None:
    # ":X:" is a cross to a terminal that knows emoji.
    config = demo_config(tmp_path, 4, engine="none.such:X")
    assert refusal("plan", config).startswith("engine none.such:X: cannot import none.such: ")


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ({"Calculater": {}}, "Calculater: "),
        (
            {"Calculater": {"prompt": "pipeline/configs/demo_prompts/Calculator.txt"}},
            "tool Calculater: no such tool, did you mean Calculator?",
        ),
        (
            {"Calculator": {"options": {"digits": 3}}},
            "tool Calculator: unknown option 'digits'",
        ),
        ({"WikiSearch": {}}, "WikiSearch: give either index (a directory) or corpus"),
        ({"WikiSearch": {"options": {"corpus": "/none.jsonl"}}}, "/none.jsonl: "),
        ({"WikiSearch": {"options": {"corpus": 3}}}, "tool WikiSearch: option 'corpus' is 3: "),
        (
            {"Calculator": {"factory": "no.such.module:Tool"}},
            "tool Calculator: cannot import no.such.module: ",
        ),
        (
            {"Calculator": {"factory": "tools.calculator"}},
            "tool Calculator: 'tools.calculator', expected package.module:callable",
        ),
        ({"Calculator": {"prompt": "none.txt"}}, "prompt none.txt: no such file"),
    ],
)
def test_a_wrong_tool_is_named(
    tmp_path: Path, refusal: Refusal, tools: dict[str, Any], problem: str
) -> None:
    config = demo_config(tmp_path, 4, tools=tools)
    assert problem in refusal("annotate", config)
    assert problem in refusal("preview", config)


def test_a_module_of_ones_own_that_breaks_is_named(
    tmp_path: Path, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torn_tool.py").write_text("def tool(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = demo_config(tmp_path, 4, tools={"Calculator": {"factory": "torn_tool:tool"}})
    assert "tool Calculator: cannot import torn_tool: SyntaxError: " in refusal("annotate", config)


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        ("Add calls.\nInput: x\nOutput:", "has 0 times {x}, expected once"),
        ("Input: {x}\nOutput: {x}\nOutput:", "has 2 times {x}, expected once"),
        ("Input: {x}\n", 'expected "Output:"'),
        ("word " * 3000 + "\nInput: {x}\nOutput:", "no room for a document in a context of 1024"),
        (b"Input: {x} \xff\nOutput:", "not readable as UTF-8 text"),
    ],
)
def test_a_wrong_prompt_is_named(
    tmp_path: Path, refusal: Refusal, prompt: str | bytes, problem: str
) -> None:
    path = tmp_path / "prompt.txt"
    path.write_bytes(prompt if isinstance(prompt, bytes) else prompt.encode())
    config = demo_config(tmp_path, 4, tools={"Calculator": {"prompt": str(path)}})
    for command in ("annotate", "plan", "preview"):
        line = refusal(command, config)
        assert problem in line
        assert str(path) in line or "the prompt of Calculator has" in line


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"": None}, "no such model directory"),
        ({"config.json": None}, "not a model directory: it has no config.json"),
        ({"config.json": b"{"}, "no usable config.json: It looks like the config file at"),
        ({"tokenizer.json": None}, "no tokenizer: there is none of"),
        ({"tokenizer.json": b'{"version": '}, "no tokenizer: "),
        ({"model.safetensors": None}, ""),
    ],
)
def test_a_wrong_model_directory_is_named(
    tmp_path: Path, refusal: Refusal, damage: dict[str, bytes | None], problem: str
) -> None:
    model = damaged_model(tmp_path / "model", damage)
    config = demo_config(tmp_path, 4, model={"path": str(model)})
    for command in ("annotate", "plan", "preview"):
        assert f"{model}: {problem}" in refusal(command, config)


def damaged_model(model: Path, damage: dict[str, bytes | None]) -> Path:
    """The demo's model with other content of some files, or without them."""
    shutil.copytree(DEMO / "model", model)
    for name, content in damage.items():
        path = model / name
        if content is not None:
            path.write_bytes(content)
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return model


def test_torn_weights_are_named_by_preview(tmp_path: Path, refusal: Refusal) -> None:
    weights = (DEMO / "model" / "model.safetensors").read_bytes()
    model = damaged_model(tmp_path / "model", {"model.safetensors": weights[:-1000]})
    config = demo_config(tmp_path, 4, model={"path": str(model)})
    assert f"{model}: the model cannot be loaded: " in refusal("preview", config)


@pytest.mark.parametrize("command", ["build", "report", "inspect", "status"])
@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
def test_what_is_no_run_is_named(tmp_path: Path, refusal: Refusal, command: str, kind: str) -> None:
    run = tmp_path / "run"
    if kind == "empty":
        run.mkdir()
    elif kind == "file":
        run.write_text("a file")
    assert refusal(command, run).startswith(f"{run}: no run here")


@pytest.mark.parametrize("command", ["build", "report", "inspect"])
def test_a_torn_run_record_is_named(tmp_path: Path, refusal: Refusal, command: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"config": {')
    assert refusal(command, run).startswith(f"{run}")


@pytest.mark.parametrize("command", ["inspect", "status"])
def test_a_foreign_manifest_is_named(tmp_path: Path, refusal: Refusal, command: str) -> None:
    shutil.copy(DEMO / "documents.parquet", tmp_path / "manifest.parquet")
    assert refusal(command, tmp_path).startswith(f"{tmp_path}: no run here")


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_a_run_that_cannot_be_a_directory_is_named(
    tmp_path: Path, refusal: Refusal, place: str
) -> None:
    (tmp_path / "file").write_text("")
    run = tmp_path / "file" / ("" if place == "a file" else "run")
    line = refusal("annotate", demo_config(tmp_path, 4), "--run", run)
    assert line.startswith(f"{tmp_path}/file") and "no run can be written there" in line


def test_a_run_that_is_being_written_is_left_alone(tmp_path: Path, refusal: Refusal) -> None:
    path = tmp_path / "run"
    with RunDir(path).lock():
        line = refusal("annotate", demo_config(tmp_path, 4), "--run", path)
        assert line.startswith(f"{path}: another process is writing to this run")
    assert os.listdir(path) == [".lock"]


def test_an_address_that_is_none_is_named(tmp_path: Path, refusal: Refusal) -> None:
    config = demo_config(tmp_path, 4)
    line = refusal("annotate", config, "--run", tmp_path / "run", "--address", "nonsense")
    assert line.startswith("--address nonsense: no Ray cluster to join there")
