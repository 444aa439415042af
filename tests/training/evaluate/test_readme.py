"""The commands of the part on evaluating of training/README.md, on few examples; its tables."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.pipeline.demo_runs import ROOT
from training.cli import main
from training.evaluate.registry import NAMES

SECTION = (
    (ROOT / "training" / "README.md")
    .read_text(encoding="utf-8")
    .split("\n## Evaluating\n")[1]
    .split("\n## ")[0]
)
DEMO = ROOT / "training" / "configs" / "evaluate-demo.yaml"


def run(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert command[:3] == ["python", "-m", "training"]
    monkeypatch.setattr("sys.argv", command[2:])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code


def test_its_commands_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("pipeline", "training"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    mine = yaml.safe_load(DEMO.read_text(encoding="utf-8"))
    mine["models"] = {"mine": mine["models"]["Toolformer"]}
    mine["benchmarks"], mine["max_examples"] = mine["benchmarks"][:1], 2
    del mine["perplexity"]
    Path("my-evaluation.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    [bash] = re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL)
    lines = [shlex.split(line) for line in bash.splitlines()]
    of_demo, of_mine, _of_the_harness, _of_hours = lines  # the last two have tests of their own
    run([*of_demo, "--max-examples", "1"], monkeypatch)
    results = json.loads(Path("runs/demo-evaluation/results.json").read_text(encoding="utf-8"))
    assert len(results["scores"]) == 4 * 6
    assert len(results["perplexity"]) == 4
    assert "Table 7" in Path("runs/demo-evaluation/results.md").read_text(encoding="utf-8")
    run(of_mine, monkeypatch)
    results = json.loads(Path("runs/table-9/results.json").read_text(encoding="utf-8"))
    assert [score["api_top_k"] for score in results["scores"]] == [0, 1, 3, 10]
    assert "Dateset" in capsys.readouterr().out


def test_the_first_page_has_the_same_command_and_one_of_the_makefile() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Evaluate\n")[1]
    [bash] = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[:1]
    evaluating, reproducing = (shlex.split(line, comments=True) for line in bash.splitlines())
    assert shlex.join(evaluating) in SECTION
    dry_run = [*reproducing, "--dry-run", "--no-print-directory"]
    made = subprocess.run(dry_run, cwd=ROOT, capture_output=True, text=True, check=True)
    # What it runs is tested with reproduce-short.yaml, in test_short_run.py.
    assert made.stdout.splitlines()[-1].strip().endswith("python -m training reproduce")


def test_its_table_has_every_benchmark() -> None:
    [table] = re.findall(r"\| benchmark \|.*?\n\n", SECTION, re.DOTALL)
    first_cells = [row.split("|")[1] for row in table.strip().splitlines()]
    named = re.findall(r"`([a-z_]+)`", "".join(first_cells))
    whole = [f"world{name}" if name.startswith("_") else name for name in named]
    assert sorted(whole) == sorted(NAMES)
