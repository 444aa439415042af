"""Examples as the batches a model is trained on, in an order that is known beforehand."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

IGNORED = -100  # the label of a token that is not trained

# Shapes: B sequences, T tokens, V vocabulary.


class Tokens(Protocol):
    """What is needed of an example."""

    @property
    def input_ids(self) -> NDArray[np.int32]: ...

    @property
    def trained(self) -> NDArray[np.bool_]: ...


class TrainingStream(Dataset[Tokens]):
    """The examples of all steps: step s trains elements [s * batch_size, (s + 1) * batch_size).

    The first pass is in the order of the examples, each later one in an order of its own, drawn
    from the seed. So the examples of a step depend on neither the number of processes nor on
    where a training was interrupted.
    """

    def __init__(
        self, examples: Sequence[Tokens], *, max_steps: int, batch_size: int, seed: int
    ) -> None:
        self._examples, self._seed = examples, seed
        self._length = max_steps * batch_size
        self._order_of: tuple[int, NDArray[np.int64]] = (0, np.arange(len(examples)))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Tokens:
        number, place = divmod(index, len(self._examples))
        if number != self._order_of[0]:
            generator = np.random.default_rng([self._seed, number])
            num = len(self._examples)
            self._order_of = (number, generator.permutation(num) if number else np.arange(num))
        return self._examples[int(self._order_of[1][place])]


def padded(examples: Sequence[Tokens]) -> dict[str, Tensor]:
    """input_ids, attention_mask and labels [B, T], filled on the right up to the longest."""
    shape = (len(examples), max(len(example.input_ids) for example in examples))
    input_ids_BT = torch.zeros(shape, dtype=torch.long)
    mask_BT = torch.zeros(shape, dtype=torch.long)
    labels_BT = torch.full(shape, IGNORED, dtype=torch.long)
    for row, example in enumerate(examples):
        num = len(example.input_ids)
        ids = torch.from_numpy(example.input_ids.astype(np.int64))
        input_ids_BT[row, :num] = ids
        mask_BT[row, :num] = 1
        labels_BT[row, :num] = ids.masked_fill(~torch.from_numpy(example.trained.copy()), IGNORED)
    return {"input_ids": input_ids_BT, "attention_mask": mask_BT, "labels": labels_BT}


def nats(logits_BTV: Tensor, labels_BT: Tensor) -> Tensor:
    """-log p of every label but the first of its sequence, float32 [B * (T - 1)]; 0 if ignored."""
    return functional.cross_entropy(
        logits_BTV[:, :-1].flatten(0, 1).float(),
        labels_BT[:, 1:].flatten(),
        ignore_index=IGNORED,
        reduction="none",
    )
