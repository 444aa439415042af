"""The perplexity of a model on the development set (Appendix B)."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from training.finetune.batches import IGNORED, Tokens, nats, padded
from training.finetune.ranks import Ranks, device


def mean_nats(
    logits: Callable[[dict[str, Tensor]], Tensor],
    examples: Sequence[Tokens],
    ranks: Ranks,
    *,
    batch_size: int,
) -> float:
    """The mean of -log p over all trained tokens of `examples`, the same in every process.

    `logits` answers a batch with [B, T, V]. A model divided by ZeRO-3 is gathered by all processes
    together: each is asked as often as the others, at the end with a batch that does not count.
    """
    starts = range(0, len(examples), batch_size)
    total, tokens = 0.0, 0
    for first in range(0, len(starts), ranks.num):
        mine = first + ranks.rank
        start = starts[mine] if mine < len(starts) else 0
        batch = padded([examples[i] for i in range(start, min(start + batch_size, len(examples)))])
        if mine >= len(starts):
            batch["labels"].fill_(IGNORED)
        batch = {name: tensor.to(device()) for name, tensor in batch.items()}
        labels_BT = batch.pop("labels")
        with torch.no_grad():
            total += float(nats(logits(batch), labels_BT).double().sum())
        tokens += int((labels_BT[:, 1:] != IGNORED).sum())
    total, num_tokens = ranks.sums([total, tokens])
    return total / num_tokens


def perplexity(nats_of_a_token: float) -> float:
    """exp of a mean loss; infinite where that is too large to be written."""
    try:
        return math.exp(nats_of_a_token)
    except OverflowError:
        return math.inf
