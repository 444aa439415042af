"""Whole runs by the command line: complete, repeatable, resumable."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import demo_config, pipeline_here, unit_bytes

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

NUM_DOCUMENTS = 24
NUM_UNITS = 6


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_config(tmp_path_factory.mktemp("config"), NUM_DOCUMENTS)


@pytest.fixture(scope="module")
def finished(
    config: Path, tmp_path_factory: pytest.TempPathFactory, local_ray: None
) -> tuple[Path, str]:
    """A run that nothing disturbed, with what the command printed."""
    run = tmp_path_factory.mktemp("finished") / "run"
    done = pipeline_here("annotate", config, "--run", run)
    return run, done.stdout


def test_every_document_is_in_the_run_exactly_once(
    finished: tuple[Path, str], config: Path
) -> None:
    run = RunDir(finished[0])
    written = [
        (row["doc_id"].split("#")[0], row["part"])
        for path in run.finished_unit_files()
        for row in pq.read_table(path, columns=["doc_id", "part"]).to_pylist()
    ]
    source = pq.read_table(config.parent / "documents.parquet").column("doc_id").to_pylist()
    assert [doc_id for doc_id, part in written if part <= 1] == source
    assert len(run.done_marks()) == NUM_UNITS


def test_calls_were_sampled_executed_and_scored(finished: tuple[Path, str]) -> None:
    calls = [
        call
        for path in RunDir(finished[0]).finished_unit_files()
        for row in pq.read_table(path).to_pylist()
        for call in row["calls"]
    ]
    assert {call["tool"] for call in calls} >= {"Calculator", "Calendar"}
    scored = [call for call in calls if call["gain"] is not None]
    assert scored
    for call in scored:
        expected = min(call["loss_empty"], call["loss_call"]) - call["loss_plus"]
        assert call["gain"] == pytest.approx(expected)
    assert all((call["status"] == "ok") == (call["result"] is not None) for call in calls)


def test_the_command_ends_with_a_summary(finished: tuple[Path, str]) -> None:
    assert f"{NUM_DOCUMENTS} documents in {NUM_UNITS} units" in finished[1]
    assert "Calculator" in finished[1]
    assert "tokens/s" in finished[1]


def test_more_replicas_and_an_engine_of_their_own_for_losses_give_the_same_bytes(
    finished: tuple[Path, str], config: Path, tmp_path: Path
) -> None:
    (tmp_path / "documents.parquet").symlink_to(config.parent / "documents.parquet")
    torch = {"name": "torch", "token_budget": 1024}
    split = demo_config(
        tmp_path, NUM_DOCUMENTS, engine=torch | {"replicas": 2},
        engines={"loss": torch | {"kept_tokens": 0}},
    )  # fmt: skip
    run = tmp_path / "run"
    done = pipeline_here("annotate", split, "--run", run)
    line = next(line for line in done.stdout.splitlines() if line.startswith("engine"))
    assert re.fullmatch(
        r"engines: position\+sample: torch [^ ]+, 2 replicas, float32 on cpu, packed; "
        r"loss: torch [^ ]+, 1 replica, float32 on cpu, packed", line
    )  # fmt: skip
    assert re.search(r"^engine: torch [^ ]+, 1 replica, float32 on cpu, packed$", finished[1], re.M)
    assert unit_bytes(run) == unit_bytes(finished[0])


def test_a_second_run_does_no_model_work_and_says_so(
    finished: tuple[Path, str], config: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished[0] / "units").iterdir()}
    done = pipeline_here("annotate", config, "--run", finished[0])
    assert "all 6 units are done already; no model work to do" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in (finished[0] / "units").iterdir()} == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 1}, "seed: 0 -> 1"),
        ({"max_document_tokens": 100}, "max_document_tokens: 768 -> 100"),
    ],
)
def test_a_changed_configuration_is_refused_and_names_the_key(
    finished: tuple[Path, str], config: Path, tmp_path: Path,
    change: dict[str, int], says: str,
) -> None:  # fmt: skip
    (tmp_path / "documents.parquet").symlink_to(config.parent / "documents.parquet")
    changed = demo_config(tmp_path, NUM_DOCUMENTS, **change)
    refused = pipeline_here("annotate", changed, "--run", finished[0], check=False)
    assert refused.returncode == 1
    assert says in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("resume", "exists", "says"), [("never", True, "a run already"), ("always", False, "no run to")]
)
def test_resume_refuses_what_it_rules_out(
    finished: tuple[Path, str], config: Path, tmp_path: Path,
    resume: str, exists: bool, says: str,
) -> None:  # fmt: skip
    run = finished[0] if exists else tmp_path / "run"
    refused = pipeline_here("annotate", config, "--run", run, "--resume", resume, check=False)
    assert refused.returncode == 1
    assert says in refused.stderr


def test_status_counts_what_is_done(finished: tuple[Path, str]) -> None:
    shown = pipeline_here("status", finished[0]).stdout
    assert "finished" in shown and "6 of 6" in shown and "24 of 24 (100.0%)" in shown


def test_inspect_shows_candidates_by_gain(finished: tuple[Path, str]) -> None:
    shown = pipeline_here("inspect", finished[0], "--limit", "5").stdout
    assert "->" in shown and "gain" in shown
