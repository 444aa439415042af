"""Which checkpoints count, and what may be continued from them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import distributed

from tools.base import ConfigError, OutputError, ToolformerError
from training.finetune.checkpoints import CheckpointMark, Checkpoints, refusals
from training.finetune.fingerprint import check_unchanged
from training.finetune.ranks import Ranks


def write(directory: Path, step: int, mark: str | None = None) -> None:
    path = directory / f"checkpoint-{step}"
    (path / f"global_step{step}").mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"weights")
    if mark is None:
        whole = CheckpointMark(step=step, num_processes=2, fingerprint={"seed": 0})
        mark = whole.model_dump_json()
    if mark:
        (path / "whole.json").write_text(mark)


def test_checkpoint_without_a_whole_mark_does_not_count_and_goes(tmp_path: Path) -> None:
    for step, mark in ((500, None), (1000, None), (1500, ""), (2000, '{"step": 20')):
        write(tmp_path, step, mark)
    checkpoints = Checkpoints(tmp_path)
    newest = checkpoints.newest()
    assert newest is not None and newest.step == 1000
    checkpoints.remove_unfinished()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-1000", "checkpoint-500"]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Ranks]:
    """A training of one process."""
    where = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    yield Ranks(rank=0, num=1)
    distributed.destroy_process_group()


def test_the_best_and_the_newest_are_kept(tmp_path: Path, alone: Ranks) -> None:
    checkpoints, kept = Checkpoints(tmp_path / "checkpoints"), []
    for step, best in ((500, 500), (1000, 500), (1500, 500), (2000, 2000), (2500, 2000)):
        write(checkpoints.directory, step, mark="")
        checkpoints.seal(alone, step, best=best, fingerprint={"seed": 0})
        kept.append([mark.step for mark in checkpoints.whole()])
    assert kept == [[500], [500, 1000], [500, 1500], [2000], [2000, 2500]]
    there = sorted(path.name for path in checkpoints.directory.iterdir())
    assert there == ["checkpoint-2000", "checkpoint-2500"]


def test_there_may_be_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "missing").newest() is None


def test_another_training_is_refused_with_what_differs() -> None:
    before = {"learning_rate": 1e-5, "build": "ab", "seed": 0}
    check_unchanged(before, dict(before), "out")
    with pytest.raises(ConfigError, match=r"out: .* build: 'ab' -> 'cd'; seed: 0 -> 1; set them"):
        check_unchanged(before, before | {"build": "cd", "seed": 1}, "out")


def test_only_a_disk_that_refuses_makes_an_output_error(tmp_path: Path) -> None:
    refused = r"Permission denied; make room; the same command continues"
    with pytest.raises(OutputError, match=refused), refusals(tmp_path):
        raise PermissionError(13, "Permission denied")
    below = FileNotFoundError(2, "No such file or directory", str(tmp_path / "model"))
    with pytest.raises(OutputError, match="No such file"), refusals(tmp_path):
        raise below
    elsewhere = FileNotFoundError(2, "No such file or directory", "nvcc")
    with pytest.raises(ToolformerError) as raised, refusals(tmp_path):
        raise elsewhere
    assert not isinstance(raised.value, OutputError)
    assert "training failed: " in str(raised.value) and "make room" not in str(raised.value)
    with pytest.raises(RuntimeError, match="a mistake of ours"), refusals(tmp_path):
        raise RuntimeError("a mistake of ours")
    assert list(tmp_path.iterdir()) == []
