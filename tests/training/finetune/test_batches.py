"""Batches, and the order in which examples are trained."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import log_softmax

from training.finetune.batches import IGNORED, TrainingStream, nats, padded


@dataclass(frozen=True)
class Example:
    input_ids: NDArray[np.int32]
    trained: NDArray[np.bool_]


def example(ids: list[int], trained: list[bool] | None = None) -> Example:
    marks = trained or [j > 0 for j in range(len(ids))]
    return Example(np.array(ids, dtype=np.int32), np.array(marks))


def test_every_pass_has_each_example_once_in_an_order_of_its_own() -> None:
    examples = [example([j]) for j in range(10)]
    stream = TrainingStream(examples, max_steps=10, batch_size=3, seed=0)
    order = [int(stream[j].input_ids[0]) for j in range(len(stream))]
    assert len(order) == 30
    assert order[:10] == list(range(10))
    assert sorted(order[10:20]) == sorted(order[20:]) == list(range(10))
    assert order[10:20] != order[20:] and order[10:20] != list(range(10))
    # Any element alone is what it is in order: a training may continue anywhere.
    again = TrainingStream(examples, max_steps=10, batch_size=3, seed=0)
    assert [int(again[j].input_ids[0]) for j in (27, 3, 14)] == [order[27], order[3], order[14]]
    other = TrainingStream(examples, max_steps=10, batch_size=3, seed=1)
    assert [int(other[j].input_ids[0]) for j in range(10, 20)] != order[10:20]


def test_batch_is_padded_on_the_right_and_learns_what_is_to_be_learned() -> None:
    batch = padded([example([7, 8, 9]), example([5, 6], [False, False])])
    assert batch["input_ids"].tolist() == [[7, 8, 9], [5, 6, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]
    assert batch["labels"].tolist() == [[IGNORED, 8, 9], [IGNORED] * 3]


def test_loss_of_a_token_is_that_of_the_logits_before_it() -> None:
    logits_BTV = torch.randn(2, 3, 11)
    labels_BT = torch.tensor([[IGNORED, 8, 9], [IGNORED, IGNORED, 4]])
    logprobs_BTV = log_softmax(logits_BTV, dim=-1)
    expected = [-logprobs_BTV[0, 0, 8], -logprobs_BTV[0, 1, 9], 0.0, -logprobs_BTV[1, 1, 4]]
    assert torch.allclose(nats(logits_BTV, labels_BT), torch.tensor(expected))
