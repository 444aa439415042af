"""python -m training lm-eval: the harness's own command line."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.pipeline.demo_runs import ROOT
from tests.training.harness.asked import config_of_small_model
from training.cli import main

README = (ROOT / "training" / "README.md").read_text(encoding="utf-8")
SUMS = """\
{"question": "The sum", "answer": "181", "choices": ["is", "well"], "right": 0}
{"question": "The sum is", "answer": "182", "choices": ["ill", "zzz zzz", "181."], "right": 2}
{"question": "All is", "answer": "181", "choices": ["well.", "The sum is All"], "right": 1}
"""


def _tasks(directory: Path) -> Path:
    (directory / "sums.jsonl").write_text(SUMS, encoding="utf-8")
    both = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(directory / "sums.jsonl")}},
        "test_split": "test",
        "doc_to_text": "{{question}}",
    }
    generating = both | {
        "task": "made_sums",
        "output_type": "generate_until",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["\n"], "max_gen_toks": 12, "do_sample": False},
        "filter_list": [
            {
                "name": "number",
                "filter": [
                    {"function": "regex", "regex_pattern": "([0-9]+)"},
                    {"function": "take_first"},
                ],
            }
        ],
        "metric_list": [{"metric": "exact_match"}],
    }
    choosing = both | {
        "task": "made_choices",
        "output_type": "multiple_choice",
        "doc_to_choice": "choices",
        "doc_to_target": "right",
        "metric_list": [{"metric": "acc"}],
    }
    for task in (generating, choosing):
        (directory / f"{task['task']}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return directory


def test_tasks_of_both_kinds_are_run_without_a_network(tmp_path: Path) -> None:
    config, tasks = config_of_small_model(tmp_path), tmp_path / "tasks"
    tasks.mkdir()
    [line] = re.findall(r"^python (-m training lm-eval .*)$", README, re.MULTILINE)
    args = f"config={config},max_calls=2,date=2021-03-09"
    ours = {
        "config=training/configs/generate-demo.yaml": args,
        "my_task": "made_sums,made_choices",
        "my_tasks": str(_tasks(tasks)),
    }
    command = [sys.executable, *(ours.get(word, word) for word in shlex.split(line))]
    command += ["--output_path", str(tmp_path / "results.json")]
    offline = {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | offline)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("results_*.json")
    results = json.loads(file.read_text(encoding="utf-8"))
    # 181 is said of both sums. One answer and one choice are wrong in the data.
    assert results["results"]["made_sums"]["exact_match,number"] == pytest.approx(1 / 3)
    assert results["results"]["made_choices"]["acc,none"] == pytest.approx(2 / 3)
    told = results["config"]["toolformer"]
    assert (told["texts"], told["texts_with_call"]) == (3, 2)
    assert told["calls"] == {"Calculator": {"ok": 2}}
    assert (told["decoding"]["max_calls"], told["decoding"]["date"]) == (2, "2021-03-09")
    assert "3 texts, 2 with a call: Calculator 2 ok" in done.stderr
    assert "|made_sums" in done.stdout


def test_without_the_harness_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lm_eval", None)  # as if it were not installed
    monkeypatch.setattr(sys, "argv", ["training", "lm-eval", "--model", "toolformer"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    told = capsys.readouterr().err
    assert told == "error: lm-eval needs the extra `evaluate`: pip install '.[evaluate]'\n"
