"""The training loop that the three models share: batches made beforehand, one per step."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

Batch = dict[str, Tensor]
IGNORED = -100  # the label of what is not learned


class BatchDataset(Dataset[Batch]):
    """One element is one whole batch."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Batch:
        return self._batches[index]


def _only(batches: list[Batch]) -> Batch:
    (batch,) = batches
    return batch


def train(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    learning_rate: float,
    seed: int,
    scratch: Path,
    bf16: bool = False,
) -> None:
    """Takes one step of AdamW per batch; `model` returns {"loss": ...} for a batch."""
    arguments = TrainingArguments(
        output_dir=str(scratch),
        per_device_train_batch_size=1,
        max_steps=len(batches),
        learning_rate=learning_rate,
        warmup_steps=max(1, len(batches) // 50),
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.05},
        adam_beta2=0.98,
        weight_decay=0.01,
        max_grad_norm=1.0,
        logging_steps=max(1, len(batches) // 40),
        train_sampling_strategy="sequential",
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=bf16,
        seed=seed,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
    )
    data = BatchDataset(batches)
    Trainer(model=model, args=arguments, train_dataset=data, data_collator=_only).train()


def padded(rows: Sequence[Sequence[int]], padding: int) -> Tensor:
    """The rows as one tensor [R, T], filled up on the right."""
    width = max(len(row) for row in rows)
    return torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])
