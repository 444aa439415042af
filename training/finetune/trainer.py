"""Transformers' Trainer with DeepSpeed, told what the paper does (section 4.1, Appendix B)."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from training.finetune.batches import Tokens, TrainingStream, nats, padded
from training.finetune.config import FinetuneConfig
from training.finetune.deepspeed_config import deepspeed_config
from training.finetune.perplexity import mean_nats, perplexity
from training.finetune.ranks import Ranks

LOSS, PERPLEXITY = "eval_loss", "eval_perplexity"  # of the development set, in the history


def training_arguments(
    config: FinetuneConfig, ranks: Ranks, *, checkpoints: Path, is_new: bool
) -> TrainingArguments:
    """What the Trainer is told. A model that is loaded after this call is divided as it loads.

    Raises:
        ConfigError: the batch cannot be divided among the processes.
    """
    on_gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(checkpoints),
        deepspeed=deepspeed_config(config),
        bf16=config.precision == "bfloat16",
        use_cpu=not on_gpu,
        seed=config.seed,
        max_steps=config.max_steps,
        per_device_train_batch_size=config.micro_batch_size,
        gradient_accumulation_steps=config.accumulation_steps(ranks.num),
        train_sampling_strategy="sequential",  # TrainingStream has its own order
        optim="adamw_torch_fused",
        learning_rate=config.learning_rate,
        # The paper says no more than that the warm-up is linear: constant after it.
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=math.ceil(config.warmup_share * config.max_steps),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        gradient_checkpointing=config.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        logging_steps=1,
        logging_nan_inf_filter=False,  # else the loss that is no number is left out
        eval_strategy="steps",
        eval_steps=config.eval_steps,
        eval_on_start=is_new,
        save_strategy="steps",
        save_steps=config.eval_steps,
        metric_for_best_model=PERPLEXITY,
        greater_is_better=False,
        report_to="none",  # TensorBoard is one of the callbacks
        remove_unused_columns=False,
        dataloader_pin_memory=on_gpu,
        disable_tqdm=True,
        log_level="error",
        log_level_replica="error",
    )


class FinetuningTrainer(Trainer):
    """A Trainer whose evaluation is the perplexity of the development set.

    Its loss is the mean over all trained tokens of a step's batch, whichever process and
    micro-batch has them.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        arguments: TrainingArguments,
        config: FinetuneConfig,
        ranks: Ranks,
        *,
        examples: Any,  # a sequence of Tokens
        development: Any,  # likewise
        callbacks: list[TrainerCallback],
    ) -> None:
        super().__init__(
            model=model,
            args=arguments,
            data_collator=padded,
            train_dataset=TrainingStream(
                examples,
                max_steps=config.max_steps,
                batch_size=config.batch_size,
                seed=config.seed,
            ),
            eval_dataset=development,
            compute_loss_func=_mean_loss,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)  # comes where there is no tqdm
        self._ranks, self._batch_size = ranks, config.micro_batch_size
        self._development: list[Tokens] = development

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The mean loss of a token of the development set in nats, and its exp; both logged."""
        model = self.model_wrapped
        model.eval()
        loss = mean_nats(
            lambda batch: model(**batch, use_cache=False).logits,
            self._development,
            self._ranks,
            batch_size=self._batch_size,
        )
        metrics = {LOSS: loss, PERPLEXITY: perplexity(loss)}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics


def _mean_loss(outputs: Any, labels_BT: Tensor, *, num_items_in_batch: Tensor) -> Tensor:
    """The share of a micro-batch in the mean over `num_items_in_batch` trained tokens."""
    return nats(outputs.logits, labels_BT).sum() / num_items_in_batch
