"""Going on when a device runs out of memory: smaller batches, nothing kept for later, and in the
end without the one request that does not fit even alone.
"""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)

# Failed allocations that torch reports as a plain RuntimeError: its CPU allocator's, and those of
# CUDA and cuBLAS outside its own allocator.
_IN_WORDS = ("DefaultCPUAllocator", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _IN_WORDS)


def run_in_halves(
    items: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    *,
    relieve: Callable[[bool], None],
    halves: Callable[[Item], Sequence[Item]] = lambda item: (item,),
) -> list[tuple[Item, Answer | None]]:
    """Each item with its answer, from one run of all or, where memory runs out, of halves.

    `relieve` is told each time, and whether the item was alone: then it gives up all it can, and
    the item is tried once more. An item that still does not fit is taken apart by `halves` where
    it can be, else answered None.
    """
    answers = _tried(items, run)
    if answers is not None:
        return list(zip(items, answers, strict=True))
    relieve(len(items) == 1)
    if len(items) == 1:
        answers = _tried(items, run)
        if answers is not None:
            return [(items[0], answers[0])]
        parts = [[part] for part in halves(items[0])]
        if len(parts) == 1:
            _log.warning("a request does not fit into memory alone and stays unanswered")
            return [(items[0], None)]
    else:
        _log.warning("out of memory with %d requests at once; going on with half", len(items))
        parts = [list(items[: len(items) // 2]), list(items[len(items) // 2 :])]
    return [
        answered
        for part in parts
        for answered in run_in_halves(part, run, relieve=relieve, halves=halves)
    ]


def _tried(
    items: Sequence[Item], run: Callable[[Sequence[Item]], Sequence[Answer]]
) -> Sequence[Answer] | None:
    """The answers; None where memory ran out, all of which is then free again."""
    try:
        return run(items)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # After the handler: its traceback would hold the tensors of what did not fit.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None
