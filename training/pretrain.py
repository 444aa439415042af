"""Pretraining of the demo model: a small GPT-J on the synthetic world, seeded, on a CPU."""

import logging
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import Dataset
from transformers import (
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

from training.card import write_card
from training.world.examples import IGNORED, Example, ExampleSource, tokenizer_corpus
from training.world.model import new_model
from training.world.sizes import Size
from training.world.tokenizer import train_tokenizer

log = logging.getLogger(__name__)

_TOKENIZER_DOCUMENTS = 4000
_BUCKET = 512  # examples sorted together, so that a batch holds similar lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainSettings:
    """The defaults are those of the committed demo model."""

    size: Size = Size.LARGE
    seed: int = 0
    steps: int = 7000
    copying_steps: int = 250  # repetitions alone: without them copying comes very late
    tokens_per_batch: int = 1536  # padding included
    learning_rate: float = 1.5e-3
    warmup_steps: int = 100
    decay_share: float = 0.25  # the last steps, in which the rate falls to a hundredth
    threads: int = 1


def token_batches(
    examples: Iterator[Example], *, count: int, tokens_per_batch: int, rng: random.Random
) -> list[list[Example]]:
    """`count` batches of similar lengths, at most `tokens_per_batch` tokens with padding."""
    batches: list[list[Example]] = []
    while len(batches) < count:
        bucket = sorted(islice(examples, _BUCKET), key=lambda example: len(example.input_ids))
        cut: list[list[Example]] = [[]]
        for example in bucket:
            if (len(cut[-1]) + 1) * len(example.input_ids) > tokens_per_batch and cut[-1]:
                cut.append([])
            cut[-1].append(example)
        rng.shuffle(cut)
        batches += cut
    return batches[:count]


def training_batches(source: ExampleSource, settings: PretrainSettings) -> list[list[Example]]:
    """All batches of a training, in order: repetitions first, then the mix."""
    rng = random.Random(f"batches {settings.seed}")
    num_copying = min(settings.copying_steps, settings.steps)
    copying, mixed = (
        token_batches(examples, count=count, tokens_per_batch=settings.tokens_per_batch, rng=rng)
        for examples, count in (
            (source.repetitions(), num_copying),
            (iter(source), settings.steps - num_copying),
        )
    )
    return copying + mixed


class BatchDataset(Dataset[list[Example]]):
    """One element is one whole batch."""

    def __init__(self, batches: Sequence[list[Example]]) -> None:
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> list[Example]:
        return self._batches[index]


@dataclass(frozen=True, slots=True)
class Collator:
    """Pads a batch on the right: causal attention never looks there."""

    pad_token_id: int

    def __call__(self, batches: list[list[Example]]) -> dict[str, torch.Tensor]:
        (batch,) = batches
        width = max(len(example.input_ids) for example in batch)
        input_ids_BT = torch.full((len(batch), width), self.pad_token_id)
        labels_BT = torch.full((len(batch), width), IGNORED)
        for row, example in enumerate(batch):
            input_ids_BT[row, : len(example.input_ids)] = torch.tensor(example.input_ids)
            labels_BT[row, : len(example.labels)] = torch.tensor(example.labels)
        return {"input_ids": input_ids_BT, "labels": labels_BT}


def make_tokenizer(prompts: Mapping[str, str], seed: int) -> PreTrainedTokenizerFast:
    """The tokenizer of the training world."""
    rng = random.Random(f"tokenizer {seed}")
    return train_tokenizer(tokenizer_corpus(prompts, rng, _TOKENIZER_DOCUMENTS))


def pretrain(out: Path, prompts: Mapping[str, str], settings: PretrainSettings) -> None:
    """Trains tokenizer and model and writes both to `out`, loadable by the Auto classes.

    While it runs, `out` holds checkpoints; the same command continues from the last of them.
    """
    torch.set_num_threads(settings.threads)
    set_seed(settings.seed)
    tokenizer = make_tokenizer(prompts, settings.seed)
    source = ExampleSource(tokenizer, prompts, settings.seed)
    batches = training_batches(source, settings)
    num_tokens = sum(len(example.input_ids) for batch in batches for example in batch)
    model = new_model(tokenizer, settings.size)
    log.info("%d steps, %d tokens, %d parameters", len(batches), num_tokens, model.num_parameters())
    checkpoints = out / f"checkpoints-seed-{settings.seed}-of-{settings.steps}-steps"
    trainer = Trainer(
        model=model,
        args=_arguments(checkpoints, settings),
        train_dataset=BatchDataset(batches),
        data_collator=Collator(tokenizer.pad_token_id),
    )
    trainer.train(resume_from_checkpoint=any(checkpoints.glob("checkpoint-*")))
    model.config.use_cache = True  # off in training alone
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_card(
        out,
        size=settings.size,
        parameters=model.num_parameters(),
        num_tokens=num_tokens,
        seed=settings.seed,
        steps=settings.steps,
        tokens_per_batch=settings.tokens_per_batch,
        learning_rate=settings.learning_rate,
    )
    shutil.rmtree(checkpoints)


def _arguments(checkpoints: Path, settings: PretrainSettings) -> TrainingArguments:
    """Constant rate, then decay: how long to train can be decided on the way."""
    num_decay = round(settings.decay_share * settings.steps)
    num_warmup = min(settings.warmup_steps, settings.steps - num_decay)
    return TrainingArguments(
        output_dir=str(checkpoints),
        per_device_train_batch_size=1,
        max_steps=settings.steps,
        learning_rate=settings.learning_rate,
        warmup_steps=num_warmup,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": num_decay, "min_lr_ratio": 0.01},
        adam_beta2=0.98,
        weight_decay=0.05,
        max_grad_norm=1.0,
        logging_steps=100,
        train_sampling_strategy="sequential",
        save_steps=250,
        save_total_limit=1,
        report_to="none",
        use_cpu=True,
        bf16=True,  # 1.6 times as fast as float32 where the CPU multiplies bfloat16
        seed=settings.seed,
        dataloader_pin_memory=False,
        disable_tqdm=False,
    )
