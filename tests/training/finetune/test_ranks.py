"""What is said of errors that libraries raise in one of several processes."""

import pytest
import torch

from tools.base import ToolformerError
from training.finetune.ranks import ProcessLost, Ranks, reason_of


def raised_in(module: str, error: str) -> BaseException:
    """What a function of a library raises."""
    with pytest.raises(RuntimeError) as caught:
        exec(f"raise {error}", {"__name__": module, "torch": torch})
    return caught.value


def test_a_short_memory_is_no_lost_process() -> None:
    error = raised_in(
        "deepspeed.runtime.zero.stage3", "torch.OutOfMemoryError('CUDA out of memory')"
    )
    for num in (1, 8):
        reason = reason_of(error, Ranks(rank=0, num=num))
        assert isinstance(reason, ToolformerError)
        assert "CUDA out of memory; a smaller micro_batch_size" in str(reason)


@pytest.mark.parametrize(
    ("module", "num", "is_lost"),
    [
        ("torch.distributed.distributed_c10d", 2, True),
        ("deepspeed.runtime.zero.stage3", 2, True),
        ("deepspeed.runtime.zero.stage3", 1, False),  # there is no other
        ("deepspeed.ops.op_builder.builder", 2, False),
        ("transformers.trainer", 2, False),
    ],
)
def test_a_process_is_lost_where_several_speak_with_each_other(
    module: str, num: int, is_lost: bool
) -> None:
    error = raised_in(module, "RuntimeError('Connection closed by peer')")
    assert isinstance(reason_of(error, Ranks(rank=0, num=num)), ProcessLost) == is_lost
