"""Trainings that are killed, run out of disk or diverge, and the same command after it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.small_disk import mounted
from tests.training.finetune.processes import Ended, finetuned, finetuned_until, start
from tests.training.finetune.small_model import small_training
from training.finetune.checkpoints import Checkpoints, sole_writer
from training.finetune.ranks import Ranks
from training.finetune.record import FinetuneRecord, read_record


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return small_training(tmp_path_factory.mktemp("crash"), development=3) | {
        "sequence_tokens": 32,
        "max_steps": 6,
        "eval_steps": 2,
        "batch_size": 4,
        "micro_batch_size": 1,
    }


def run(settings: dict[str, Any], out: Path, num: int = 2, **changes: Any) -> Ended:
    logs = Path(settings["run"]).parent / "logs"  # not on a disk that is full
    return start(finetuned, [settings | {"out": str(out)} | changes], logs, num).end()


def finished(out: Path) -> FinetuneRecord:
    record = read_record(out)
    assert record is not None
    return record


def the_error(ended: Ended) -> str:
    """The one line that one of the processes that failed has written besides the progress."""
    lines = [line for output in ended.outputs for line in output.splitlines()]
    assert not any("Traceback" in line or "Warning" in line for line in lines), lines
    (error,) = [line for line in lines if line.startswith("error:")] or [f"none in {lines}"]
    return error


def steps(out: Path) -> list[int]:
    return [mark.step for mark in Checkpoints(out / "checkpoints").whole()]


def loads(path: Path) -> bool:
    model: Any = AutoModelForCausalLM.from_pretrained(path)
    return all(bool(torch.isfinite(weight).all()) for weight in model.parameters())


@pytest.fixture(scope="module")
def killed(
    settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ended]:
    """A training whose second process is killed while the second checkpoint is being written."""
    out = tmp_path_factory.mktemp("killed") / "out"
    sign = out / "checkpoints/checkpoint-4"
    doomed = [str(sign), 1, settings | {"out": str(out)}]
    return out, start(finetuned_until, doomed, out.parent / "logs", 2).end()


def test_killed_process_ends_the_others_in_one_line(killed: tuple[Path, Ended]) -> None:
    out, ended = killed
    assert ended.codes == [1, -9]
    error = the_error(ended)
    assert "another process of this training ended" in error
    assert "continues from the last checkpoint" in error
    assert (out / "checkpoints/checkpoint-4").exists() and steps(out) == [2]


def test_another_training_does_not_go_on_from_a_checkpoint(
    settings: dict[str, Any], killed: tuple[Path, Ended]
) -> None:
    out, _ = killed
    ended = run(settings, out, 1, learning_rate=0.02, seed=3)
    assert ended.codes == [1]
    error = the_error(ended)
    assert "learning_rate: 0.01 -> 0.02; seed: 0 -> 3" in error
    ended = run(settings, out, 1)
    error = the_error(ended)
    assert "written by 2 processes" in error and "this start has 1" in error


def test_two_trainings_do_not_write_to_one_place(
    settings: dict[str, Any], killed: tuple[Path, Ended]
) -> None:
    out, _ = killed
    with sole_writer(out, Ranks(rank=0, num=1)):
        error = the_error(run(settings, out, 1))
    assert "another finetuning is writing there" in error


def test_killed_training_ends_as_one_that_was_not(
    settings: dict[str, Any], killed: tuple[Path, Ended], tmp_path: Path
) -> None:
    out, _ = killed
    assert run(settings, tmp_path / "out").codes == [0, 0]
    undisturbed = finished(tmp_path / "out")
    ended = run(settings, out)
    assert ended.codes == [0, 0], ended.outputs
    assert "continuing after step 2" in ended.outputs[0]
    continued = finished(out)
    assert [step for step, _ in continued.losses] == [1, 2, 3, 4, 5, 6]
    for mine, theirs in zip(continued.losses, undisturbed.losses, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)
    for here, there in zip(continued.evaluations, undisturbed.evaluations, strict=True):
        assert here.step == there.step and here.loss == pytest.approx(there.loss, abs=1e-5)
    # The newest and the best.
    assert steps(out) == sorted({continued.best_step, 6})

    written = (out / "finetune.json").stat().st_mtime_ns
    assert run(settings, out).codes == [0, 0]
    assert (out / "finetune.json").stat().st_mtime_ns == written


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one checkpoint and a half of the small model."""
    with mounted(tmp_path / "disk", "3500k") as place:
        yield place


def test_full_disk_leaves_the_last_checkpoint_to_go_on_from(
    settings: dict[str, Any], disk: Path
) -> None:
    ended = run(settings, disk / "out")
    assert ended.codes == [1, 1], ended.outputs
    error = the_error(ended)
    assert "No space left on device" in error and "the same command" in error
    assert steps(disk / "out") == [2]
    assert loads(disk / "out/checkpoints/checkpoint-2")
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    ended = run(settings, disk / "out")
    assert ended.codes == [0, 0], ended.outputs
    assert "continuing after step 2" in ended.outputs[0]


def test_diverging_training_ends_before_it_is_saved(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    # The first step of the warm-up changes nothing.
    ended = run(settings, tmp_path / "out", learning_rate=1e30, eval_steps=1, warmup_share=0.1)
    assert ended.codes == [1, 1], ended.outputs
    error = the_error(ended)
    assert "step 2" in error and "nan" in error and "learning_rate" in error
    assert steps(tmp_path / "out") == [1]
    assert loads(tmp_path / "out/checkpoints/checkpoint-1")
