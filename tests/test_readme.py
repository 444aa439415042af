"""The README's commands, as a new user would give them, in a directory of its own."""

import gzip
import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.pipeline.test_real_webtext import without_calls

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.ray


def commands_of(heading: str) -> list[str]:
    """The lines of the first bash block below a heading of the README, without comments."""
    section = README.split(f"\n{heading}\n")[1] if heading else README
    block = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [line.split(" #")[0].strip() for line in block.group(1).splitlines() if line.strip()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with this repository's files and environment, and nothing made by earlier runs."""
    if not (ROOT / ".venv" / ".installed").exists():
        pytest.skip("`make` has not made the environment .venv")
    place = tmp_path_factory.mktemp("checkout")
    for name in ("Makefile", "pyproject.toml", ".ci", ".venv", "pipeline", "tools", "training"):
        (place / name).symlink_to(ROOT / name)
    return place


def run(command: Sequence[str] | str, checkout: Path, ray_directory: Path) -> str:
    """What a command prints; it must succeed."""
    path = f"{checkout / '.venv' / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=checkout, shell=isinstance(command, str), capture_output=True, text=True,
        env=os.environ | {"PATH": path, "RAY_TMPDIR": str(ray_directory), "COLUMNS": "120"},
        timeout=590,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def demo(checkout: Path, ray_directory: Path) -> tuple[Path, str]:
    """`make demo`, once, and what it printed."""
    assert commands_of("")[0] == "make demo"
    return checkout / "runs" / "demo", run("make demo", checkout, ray_directory)


def test_make_demo_keeps_calls_of_every_tool(demo: tuple[Path, str]) -> None:
    stats = json.loads((demo[0] / "report" / "stats.json").read_text())
    assert stats["documents"] == 240
    for tool in ("Calculator", "Calendar", "WikiSearch", "QA", "MT"):
        counts = stats["tools"][tool]
        assert 0 < counts["kept"] <= counts["scored"] <= counts["executed"], tool
        assert counts["candidates"] > 0 and counts["positions"] > 0, tool
    assert (demo[0] / "report" / "index.html").stat().st_size > 10_000
    assert "Calls by gain" in demo[1]


def test_removing_the_calls_of_the_demo_gives_the_source_bytes(demo: tuple[Path, str]) -> None:
    documents = pq.read_table(ROOT / "pipeline" / "demo" / "documents.parquet").to_pylist()
    sources = {row["doc_id"]: row["text"].encode() for row in documents}
    augmented: list[dict[str, Any]] = [
        row
        for path in sorted((demo[0] / "dataset").glob("*.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    assert augmented
    for row in augmented:
        assert row["calls"]
        assert without_calls(row) == sources[row["doc_id"]]


def test_the_demo_finetunes_on_the_calls_it_kept(
    demo: tuple[Path, str], checkout: Path, ray_directory: Path
) -> None:
    [command] = commands_of("## Finetune")
    assert "perplexity" in run(f"{command} --max-steps 1", checkout, ray_directory)
    assert (demo[0].parent / "demo-finetuned" / "model" / "model.safetensors").is_file()


def test_the_calls_of_the_demo_become_conversations(
    demo: tuple[Path, str], checkout: Path, ray_directory: Path
) -> None:
    # The first two are run by training/generate/test_readme.py and training/serve/.
    *others, command = commands_of("## Generate")
    assert [other.split()[3] for other in others] == ["generate", "serve"]
    run(command, checkout, ray_directory)
    calls = sum(
        len(row["calls"])
        for path in (demo[0] / "dataset").glob("*.parquet")
        for row in pq.read_table(path, columns=["calls"]).to_pylist()
    )
    [shard] = (checkout / "runs" / "demo-chats").rglob("*.parquet")
    messages = [json.loads(m) for row in pq.read_table(shard).to_pylist() for m in row["messages"]]
    assert calls == sum(message["role"] == "tool" for message in messages) > 0


def test_the_commands_for_your_own_text(checkout: Path, ray_directory: Path) -> None:
    documents = pq.read_table(ROOT / "pipeline" / "demo" / "documents.parquet").to_pylist()
    with gzip.open(checkout / "en_head_0000.json.gz", "wt", encoding="utf-8") as stream:
        for row in documents[:8]:
            ccnet = {"url": row["url"], "raw_content": row["text"], "digest": row["doc_id"]}
            stream.write(json.dumps(ccnet) + "\n")
    config = yaml.safe_load((ROOT / "pipeline" / "configs" / "demo.yaml").read_text())
    config |= {"input": "documents", "run": "runs/my"}
    # What a model makes of them is shown above; without one each command starts in half the time.
    config["engine"] = "pipeline.engines.scripted:ScriptedEngine"
    config["tools"] = {name: config["tools"][name] for name in ("Calculator", "WikiSearch")}
    (checkout / "my.yaml").write_text(yaml.safe_dump(config))
    commands = commands_of("## Your own text")
    assert [command.split()[3] for command in commands] == [
        "ingest", "preview", "plan", "annotate", "status", "build", "report", "inspect", "push",
    ]  # fmt: skip
    for command in commands:
        assert run(command, checkout, ray_directory)
    assert (checkout / "runs" / "my" / "dataset").is_dir()
    assert (checkout / "my-set" / "README.md").is_file()


def test_the_commands_for_a_cluster_are_those_that_other_tests_run() -> None:
    by_test = {
        "python -m cluster slurm my.yaml cluster/configs/a100-slurm.yaml": "cluster/test_slurm.py",
        "python -m pipeline annotate my.yaml --address auto": "pipeline/test_annotate_cluster.py",
    }
    assert commands_of("## On a cluster") == list(by_test)
    assert all((ROOT / "tests" / test).is_file() for test in by_test.values())
