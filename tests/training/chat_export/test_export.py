"""A real C* as conversations: the files, the card, and what is refused."""

import json
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from huggingface_hub import DatasetCard

from pipeline.build import build
from pipeline.build.mark import built_summary, read_build_mark
from pipeline.rundir import RunDir
from tests.pipeline.build.scored_units import byte_codec, candidate, row
from tests.pipeline.demo_runs import ROOT
from tests.pipeline.made_runs import commit, planned_run
from tests.training.chat_export.exported import chat_export, jsonl_rows, parquet_rows
from tests.training.finetune.made_dataset import made_run
from tools.base import ConfigError, InputError, OutputError
from training.chat_export.options import DEFAULT_INSTRUCTION, ShardFormat
from training.chat_export.shards import CHATS, write_shards


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """28 documents with calls of all five tools."""
    return made_run(tmp_path_factory.mktemp("chat") / "run", 30, long=1)


@pytest.fixture(scope="module")
def out(run: Path) -> Path:
    done = chat_export(run, "--out", run.parent / "chats")
    assert done.exit_code == 0, done.output
    return run.parent / "chats"


def test_every_document_of_c_star_is_there_byte_for_byte(run: Path, out: Path) -> None:
    plain = pq.read_table(run / "dataset_plain", columns=["doc_id", "text"]).to_pylist()
    rows = parquet_rows(out)
    assert [each["doc_id"] for each in rows] == [each["doc_id"] for each in plain]
    openings = 0
    for each, source in zip(rows, plain, strict=True):
        user, *others = each["messages"]
        assert user["content"].startswith(DEFAULT_INSTRUCTION)
        opening = user["content"].removeprefix(DEFAULT_INSTRUCTION).removeprefix("\n\n")
        written = [message["content"] for message in others if message["role"] == "assistant"]
        assert "".join([opening, *written]) == source["text"]
        openings += opening != ""
    assert openings > len(rows) / 3


def test_every_call_of_c_star_is_there(run: Path, out: Path) -> None:
    stored = pq.read_table(run / "dataset", columns=["calls"]).column("calls").to_pylist()
    made: Counter[str] = Counter()
    for each, calls in zip(parquet_rows(out), stored, strict=True):
        messages = each["messages"]
        assert [m["content"] for m in messages if m["role"] == "tool"] == [
            call["result"] for call in calls
        ]
        told = [call["function"] for m in messages for call in m.get("tool_calls", ())]
        assert [(each["name"], each["arguments"]["input"]) for each in told] == [
            (call["tool"], call["input"].strip('"')) for call in calls
        ]
        made.update(each["name"] for each in told)
    run_dir = RunDir(run)
    summary = built_summary(run_dir, read_build_mark(run_dir))
    assert made == {tool: counts.kept for tool, counts in summary.tools.items()}


def test_rows_have_the_columns_that_trl_reads(out: Path) -> None:
    assert pq.read_schema(out / "data" / "train-00000.parquet").equals(CHATS)
    assert CHATS.names == ["doc_id", "messages", "tools"]
    assert CHATS.field("messages").type == pa.list_(pa.json_())
    tools = [each["tools"] for each in parquet_rows(out)]
    assert all(each == tools[0] for each in tools)
    names = [tool["function"]["name"] for tool in tools[0]]
    assert names == ["Calculator", "Calendar", "WikiSearch", "QA", "MT"]


def test_no_key_of_a_message_is_null(out: Path) -> None:
    """Templates ask whether a message has `tool_calls`."""
    for each in parquet_rows(out):
        for message in each["messages"]:
            assert None not in message.values()
            assert message["role"] == "assistant" or "tool_calls" not in message


def test_json_lines_hold_the_same(run: Path, out: Path, tmp_path: Path) -> None:
    done = chat_export(run, "--out", tmp_path / "chats", "--format", "jsonl")
    assert done.exit_code == 0
    assert jsonl_rows(tmp_path / "chats") == parquet_rows(out)


def test_the_same_build_gives_the_same_bytes(run: Path, out: Path, tmp_path: Path) -> None:
    chat_export(run, "--out", tmp_path / "again")
    files = {path.relative_to(out) for path in out.rglob("*") if path.is_file()}
    assert files == {Path("README.md"), Path("data/train-00000.parquet")}
    for file in files:
        assert (tmp_path / "again" / file).read_bytes() == (out / file).read_bytes()


def test_the_table_and_the_card_have_the_counts(run: Path, tmp_path: Path) -> None:
    done = chat_export(
        run, "--out", tmp_path / "chats", "--license", "odc-by", "--instruction", "Go"
    )
    card = (tmp_path / "chats" / "README.md").read_text()
    rows = parquet_rows(tmp_path / "chats")
    messages = [message for each in rows for message in each["messages"]]
    shown = dict(re.findall(r"│ ([\w ]+?) +│ +([\d,]+) │", done.output))
    assert shown["documents"] == str(len(rows)) and shown["messages"] == str(len(messages))
    for tool, calls in Counter(m["name"] for m in messages if m["role"] == "tool").items():
        assert shown[f"calls of {tool}"] == str(calls)
        assert f"| calls of {tool} | {calls} |\n" in card
    assert f"| conversations | {len(rows)} |\n| messages | {len(messages)} |\n" in card
    assert "The instruction is:\n\n    Go\n" in card and "No license" not in card
    data = DatasetCard(card).data.to_dict()  # type: ignore[no-untyped-call]
    # With `configs`, datasets 5.2 takes two directories of one name for the same.
    assert data["license"] == "odc-by" and "configs" not in data
    assert str(tmp_path) not in card and str(run) not in card
    assert all(each["messages"][0]["content"][:2] == "Go" for each in rows)


def test_shards_have_the_same_number_of_rows_but_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.chat_export.shards._GROUP_ROWS", 2)
    monkeypatch.setattr("training.chat_export.shards._SHARD_GROUPS", 2)
    rows = [{"doc_id": str(k), "messages": [{"role": "user"}], "tools": []} for k in range(9)]
    for shard_format in ShardFormat:
        directory = tmp_path / shard_format / "data"
        directory.mkdir(parents=True)
        write_shards(directory, iter(rows), shard_format)
        files = sorted(directory.iterdir())
        assert [file.name for file in files] == [f"train-0000{n}.{shard_format}" for n in range(3)]
    assert parquet_rows(tmp_path / "parquet") == jsonl_rows(tmp_path / "jsonl") == rows
    files = sorted((tmp_path / "parquet" / "data").iterdir())
    assert [pq.read_metadata(file).num_rows for file in files] == [4, 4, 1]


# What is refused, and what is left.


def refused(error: type[Exception], *arguments: object) -> str:
    """The one line with which an export ends."""
    done = chat_export(*arguments)
    assert isinstance(done.exception, error), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_no_run_and_no_build_are_named(run: Path, tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    assert "no run here" in refused(InputError, tmp_path / "none", "--out", chats)
    shutil.copytree(run, tmp_path / "run", ignore=shutil.ignore_patterns("build.json", "units"))
    assert "not built yet" in refused(InputError, tmp_path / "run", "--out", chats)
    assert not chats.exists()


def test_a_build_without_documents_is_named(tmp_path: Path) -> None:
    run = planned_run(tmp_path / "run", 1, unit_documents=1)
    commit(run, 0, [row("a", "One and one.", [candidate("Calculator", 3, "1 + 1", "2", plus=2.9)])])
    build(run.finished_unit_files(), run.config(), byte_codec(), run.path)
    said = refused(InputError, run.path, "--out", tmp_path / "chats")
    assert said == f"{run.path}: its C* has no documents; there is nothing to export"


def test_a_directory_with_anything_in_it_is_refused_and_left_alone(
    run: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    said = refused(ConfigError, run, "--out", tmp_path)
    assert said == f"--out {tmp_path}: is not empty; choose a new directory"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert "is a file" in refused(ConfigError, run, "--out", tmp_path / "notes.txt")


def test_what_a_killed_export_left_is_no_obstacle(run: Path, out: Path, tmp_path: Path) -> None:
    (tmp_path / ".exporting" / "data").mkdir(parents=True)
    (tmp_path / ".exporting" / "data" / "train-00007.parquet").write_bytes(b"PAR1")
    assert chat_export(run, "--out", tmp_path).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "data"]
    assert parquet_rows(tmp_path) == parquet_rows(out)


def test_a_dataset_that_is_damaged_leaves_nothing(run: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "run"
    shutil.copytree(run, damaged, ignore=shutil.ignore_patterns("units"))
    mark = json.loads((damaged / "build.json").read_text())
    mark["documents"] += 1
    (damaged / "build.json").write_text(json.dumps(mark))
    said = refused(InputError, damaged, "--out", tmp_path / "chats")
    assert said.endswith("has 28 documents, 29 were built; build the run again")
    assert list((tmp_path / "chats").iterdir()) == []


def test_a_full_disk_leaves_nothing(run: Path, small_disk: Path) -> None:
    asked = random.Random(0).randbytes(150_000).hex()  # zstd cannot make it small
    for shard_format in ShardFormat:
        said = refused(
            OutputError, run, "--out", small_disk / "chats", "--format", shard_format,
            "--instruction", asked,
        )  # fmt: skip
        assert "No space left" in said and said.endswith("export again")
        assert list((small_disk / "chats").iterdir()) == []


def test_options_that_mean_nothing_are_refused(run: Path, tmp_path: Path) -> None:
    chats = tmp_path / "chats"
    assert "--instruction" in refused(ConfigError, run, "--out", chats, "--instruction", " ")
    assert "Calc" in refused(ConfigError, run, "--out", chats, "--describe", "Calc=Computes.")
    done = chat_export(run, "--out", chats, "--describe", "Calculator")
    assert done.exit_code == 2 and not chats.exists()


def test_the_commands_of_the_readme_work(run: Path, tmp_path: Path) -> None:
    readme = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
    section = readme.split("\n## As chat data\n")[1].split("\n## ")[0]
    block = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert block is not None
    for number, line in enumerate(block[1].splitlines()):
        words = line.split("  #")[0].split()
        assert words[:5] == ["python", "-m", "training", "chat-export", "runs/demo"]
        words[words.index("--out") + 1] = str(tmp_path / str(number))
        assert chat_export(run, *words[5:]).exit_code == 0
