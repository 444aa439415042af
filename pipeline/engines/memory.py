"""Going on when a device runs out of memory: smaller batches, and in the end without the one
request that does not fit even alone.
"""

import gc
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_log = logging.getLogger(__name__)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed. On a CPU torch has no error of its own for that."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def run_in_halves(
    items: Sequence[Item],
    run: Callable[[Sequence[Item]], Sequence[Answer]],
    halves: Callable[[Item], Sequence[Item]] | None = None,
) -> list[tuple[Item, Answer | None]]:
    """Each item with its answer, from one run of all or, where memory runs out, of halves.

    An item that does not fit alone is taken apart by `halves` where it can be, else answered None.
    """
    try:
        return list(zip(items, run(items), strict=True))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    # Outside the handler: its traceback would hold the tensors of what did not fit.
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    middle = len(items) // 2
    parts: list[Sequence[Item]] = [items[:middle], items[middle:]]
    if len(items) == 1:
        smaller = halves(items[0]) if halves is not None else ()
        if len(smaller) < 2:
            _log.warning("a request does not fit into memory alone and stays unanswered")
            return [(items[0], None)]
        parts = [[item] for item in smaller]
    else:
        _log.warning("out of memory with %d requests at once; going on with half", len(items))
    return [answered for part in parts for answered in run_in_halves(part, run, halves)]
