"""Whole runs whose tool results are cached: the bytes stay the same."""

import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.annotate import annotate
from pipeline.config import RunConfig, load_config
from pipeline.rundir import RunDir
from pipeline.status import status_table
from tests.pipeline.demo_runs import demo_config, unit_bytes
from tests.pipeline.plain_run import plainly_annotated
from tools.usage import ToolUsage, total_usage

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray Data's, of its own options
]

NUM_DOCUMENTS = 4
FACTORY = "tests.pipeline.watched_calculator:WatchedCalculator"


def configured(directory: Path, run: str, **calculator: Any) -> RunConfig:
    """A run of a few demo documents with the Calculator alone, served as `calculator` says."""
    base = load_config(demo_config(directory, NUM_DOCUMENTS), run=directory / run)
    tool = base.tools["Calculator"].model_copy(update=calculator)
    return base.model_copy(
        update={"tools": {"Calculator": tool}, "unit_documents": 2, "tool_cache": directory / "c"}
    )


def annotated(config: RunConfig) -> str:
    """What the console shows of the run."""
    console = Console(file=io.StringIO(), width=200)
    annotate(config, console, dashboard=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def usage_of(config: RunConfig) -> ToolUsage:
    return total_usage(mark.tools for mark in RunDir(config.run).done_marks())["Calculator"]


def test_a_cache_changes_no_byte_of_a_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    served = {"factory": FACTORY, "options": {"log": str(log), "pause_s": 0.0}}
    first = configured(tmp_path, "first", **served, actors=1, num_cpus=1.0)
    annotated(first)
    usage = usage_of(first)
    assert usage.statuses["ok"] > 0 and "failed" not in usage.statuses
    undisturbed = plainly_annotated(configured(tmp_path, "plain"))
    assert unit_bytes(first.run) == undisturbed

    log.unlink()
    again = configured(tmp_path, "again", **served)
    annotated(again)
    assert not log.exists()  # the tool was asked nothing
    cached = usage_of(again)
    assert (cached.asked, cached.batches) == (0, 0)
    assert cached.requests == cached.from_cache == usage.requests
    assert unit_bytes(again.run) == undisturbed

    shown = Console(file=io.StringIO(), width=200)
    shown.print(status_table(RunDir(first.run)))
    assert isinstance(shown.file, io.StringIO)
    line = next(line for line in shown.file.getvalue().splitlines() if "tool Calculator" in line)
    assert f"{usage.requests} calls, " in line and "0 failed, " in line
    assert re.search(r"a batch [0-9.]+ m?s \(p95 [0-9.]+ m?s\)", line)
