"""What a finetuning shows while it runs: a bar, and a line for every evaluation."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from training.finetune.trainer import LOSS, PERPLEXITY


class TrainingProgress(TrainerCallback):
    """A bar of the steps with the last loss, for as long as the `with` block runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("[bold]finetune"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("steps"),
            TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )

    def __enter__(self) -> "TrainingProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        # Time is estimated from the steps of this start alone.
        self._task = self._bar.add_task(
            "finetune", total=state.max_steps, completed=state.global_step, loss=""
        )
        self._bar.start()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._bar.update(self._task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **about: Any,
    ) -> None:
        logs: Mapping[str, float] = about["logs"]
        if "loss" in logs:
            self._bar.update(self._task, loss=f"loss {logs['loss']:.3f}")

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **about: Any,
    ) -> None:
        metrics: Mapping[str, float] = about["metrics"]
        self._console.print(
            f"step {state.global_step:,}: perplexity {metrics[PERPLEXITY]:.3f} "
            f"({metrics[LOSS]:.4f} nats) on the development set",
            highlight=False,
            soft_wrap=True,
        )
