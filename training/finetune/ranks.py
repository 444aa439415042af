"""The processes of one training: how they find each other, and how they end together.

A launcher starts them with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in their
environment. A process without these is a training of its own.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar, cast

import torch
from torch import distributed

from pipeline.engines.memory import is_out_of_memory
from tools.base import ToolformerError, one_line

_ALONE = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",  # any that is free
}
_FAILED = "training/failed"
_ANSWER_S = 2.0
_OPERATORS = "deepspeed.ops"  # compiled when they are first used

T = TypeVar("T")


class AnotherFailed(RuntimeError):
    """Another process of this training failed first and says why: this one ends without a word."""


class ProcessLost(RuntimeError):
    """Another process ended in the middle of the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The processes of a training, and which of them this is."""

    rank: int
    num: int

    @property
    def is_first(self) -> bool:
        """Whether this is the one that speaks, and writes what is written once."""
        return self.rank == 0

    def wait(self) -> None:
        """Return when all processes have come here."""
        distributed.barrier()

    def sums(self, values: Sequence[float]) -> list[float]:
        """The sum of each value over all processes, in float64."""
        total = torch.tensor(values, dtype=torch.float64, device=device())
        distributed.all_reduce(total)
        return cast("list[float]", total.tolist())

    def from_first(self, value: T | None) -> T:
        """What the first process gives for `value`; it has to be picklable."""
        box = [value]
        distributed.broadcast_object_list(box, src=0)
        return cast(T, box[0])


def device() -> torch.device:
    """Where this process computes: its own GPU, or the CPU where there is none."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


@contextmanager
def joined() -> Iterator[Ranks]:
    """The processes of this training while the block runs.

    Raises:
        ToolformerError: memory is short.
        AnotherFailed: this process cannot go on because another failed before.
        ProcessLost: another process ended without a word, killed for example.
    """
    ranks = _join()
    try:
        yield ranks
    except BaseException as error:
        if not _is_first_to_fail():
            if ranks.is_first:
                time.sleep(_ANSWER_S)  # the one that was first may still wait for the answer
            raise AnotherFailed("another process of this training failed") from error
        reason = reason_of(error, ranks)
        if reason is not None:
            raise reason from error
        raise
    distributed.destroy_process_group()


def _join() -> Ranks:
    if "RANK" not in os.environ:
        os.environ.update(_ALONE)
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(device())
    else:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    if not on_gpu:
        # For inference alone; it would be compiled here, in half a minute and with a compiler.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    # Before transformers' TrainingArguments, which would start one that DeepSpeed does not see.
    deepspeed.init_distributed(dist_backend="nccl" if on_gpu else "gloo", verbose=False)
    return Ranks(rank=distributed.get_rank(), num=distributed.get_world_size())


def reason_of(error: BaseException, ranks: Ranks) -> Exception | None:
    """What an error of a library means, where more can be said of it than it says itself."""
    if is_out_of_memory(error):
        return ToolformerError(
            f"out of memory: {one_line(error)}; a smaller micro_batch_size, "
            "gradient_checkpointing: true or zero.offload_optimizer: true need less: "
            "`python -m training memory` says how much"
        )
    lost = ranks.num > 1 and isinstance(error, RuntimeError)
    if lost and _is_of_communication(error.__traceback__):
        return ProcessLost(
            f"another process of this training ended or is out of reach: {one_line(error)}; "
            "the same command continues from the last checkpoint"
        )
    return None


def _is_first_to_fail() -> bool:
    """Whether no other process of the training has said that it failed; this one says so now."""
    try:
        store: Any = distributed.distributed_c10d._get_default_store()
        return bool(store.add(_FAILED, 1) == 1)
    except (RuntimeError, ValueError):
        return False  # what keeps it, often the first process, has ended: it or its launcher speaks


def _is_of_communication(traceback: TracebackType | None) -> bool:
    """Whether an error was raised in what sends and receives."""
    name = ""
    while traceback is not None:
        name = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    # DeepSpeed waits for what it sends in many places; its operators do not.
    return name.startswith(("torch.distributed", "deepspeed.")) and not name.startswith(_OPERATORS)
