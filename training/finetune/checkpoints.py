"""Checkpoints that are whole or do not count: checkpoint-N, with a mark written last.

    checkpoint-500/
      model.safetensors config.json ...   the model, as others load it
      global_step500/                     DeepSpeed's parts of weights and optimiser, one a process
      rng_state_0.pth scheduler.pt trainer_state.json
      whole.json                          the mark

What is killed while it writes leaves a directory without a mark; the next start removes it.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError

from tools.atomic import sync, write_text_atomically
from tools.base import InputError, OutputError, ToolformerError, one_line
from tools.places import why
from training.finetune.ranks import Ranks

_MARK = "whole.json"
_PREFIX = "checkpoint-"
_PROBE_BYTES = 1 << 18
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)
_CONTINUE = "the same command continues from the last whole checkpoint, if there is one"


class CheckpointMark(BaseModel):
    """What is known of a whole checkpoint without opening it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    num_processes: int  # DeepSpeed's parts are for as many
    fingerprint: dict[str, Any]  # what the training depends on, by key


class Checkpoints:
    """The checkpoints of one training, in a directory of their own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, step: int) -> Path:
        return self.directory / f"{_PREFIX}{step}"

    def whole(self) -> list[CheckpointMark]:
        """The marks of all that are whole, by step."""
        marks = []
        for path in self.directory.glob(f"{_PREFIX}*/{_MARK}"):
            try:
                marks.append(CheckpointMark.model_validate_json(path.read_bytes()))
            except (OSError, ValidationError):
                continue  # as good as none
        return sorted(marks, key=lambda mark: mark.step)

    def newest(self) -> CheckpointMark | None:
        """The mark of the last that is whole; None where there is none."""
        return next(reversed(self.whole()), None)

    def history(self, step: int) -> dict[str, Any]:
        """What transformers' Trainer has written of the training up to the checkpoint of `step`."""
        state: dict[str, Any] = json.loads((self.path(step) / "trainer_state.json").read_bytes())
        return state

    def remove_unfinished(self) -> None:
        """Remove what a killed training was writing."""
        whole = {self.path(mark.step).name for mark in self.whole()}
        for path in self.directory.glob(f"{_PREFIX}*"):
            if path.name not in whole:
                shutil.rmtree(path)

    def seal(self, ranks: Ranks, step: int, *, best: int, fingerprint: Mapping[str, Any]) -> None:
        """Mark that of `step` whole when all processes have written it, then keep it and the best.

        Raises:
            OutputError: the mark cannot be written; older checkpoints stand.
        """
        ranks.wait()
        if os.environ.get("LOCAL_RANK", "0") == "0":
            for path in (*self.path(step).rglob("*"), self.path(step), self.directory):
                sync(path)
        ranks.wait()
        if ranks.is_first:
            mark = CheckpointMark(step=step, num_processes=ranks.num, fingerprint=dict(fingerprint))
            write_text_atomically(self.path(step) / _MARK, mark.model_dump_json(indent=1) + "\n")
            for old in self.whole():
                if old.step not in (step, best):
                    (self.path(old.step) / _MARK).unlink()
                    shutil.rmtree(self.path(old.step))


@contextmanager
def sole_writer(out: Path, ranks: Ranks) -> Iterator[None]:
    """Hold `out` for this training while the block runs; the system frees it if its first process
    dies.

    Raises:
        InputError: another training is writing there.
    """
    if not ranks.is_first:
        yield
        return
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{out}: another finetuning is writing there; wait for its end or choose another "
                "--out"
            ) from None
        yield


@contextmanager
def refusals(out: Path) -> Iterator[None]:
    """Turns what the system raises into one error.

    Raises:
        OutputError: the disk is full, or refuses otherwise.
        ToolformerError: something else failed, as a file elsewhere or a compiler that is missing.
    """
    try:
        yield
    except SafetensorError as error:
        raise _not_written(out, error) from error
    except OSError as error:
        if error.errno in _OF_DISKS or str(out.absolute()) in str(error.filename):
            raise _not_written(out, error) from error
        raise ToolformerError(f"{out}: the training failed: {why(error)}; {_CONTINUE}") from error
    except RuntimeError as error:
        # torch.save says no more than that a write failed: ask the disk.
        refusal = _probe(out)
        if refusal is None:
            raise
        raise _not_written(out, refusal) from error


def _probe(out: Path) -> OSError | None:
    """Why nothing can be written to `out`; None if something can."""
    path = out / f".probe-{os.getpid()}"
    try:
        path.write_bytes(bytes(_PROBE_BYTES))
        sync(path)
    except OSError as error:
        return error
    finally:
        path.unlink(missing_ok=True)
    return None


def _not_written(out: Path, error: Exception) -> OutputError:
    reason = why(error) if isinstance(error, OSError) else one_line(error)
    return OutputError(f"{out}: cannot write: {reason}; make room; {_CONTINUE}")
