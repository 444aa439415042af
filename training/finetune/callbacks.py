"""What is done between the steps of a training: marks on checkpoints, and an end to nonsense."""

import math
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tools.base import ToolformerError
from training.finetune.checkpoints import Checkpoints
from training.finetune.ranks import Ranks


class SealCheckpoints(TrainerCallback):
    """Marks a checkpoint when all processes have written it, and removes those not needed."""

    def __init__(
        self, checkpoints: Checkpoints, ranks: Ranks, fingerprint: Mapping[str, Any]
    ) -> None:
        self._checkpoints, self._ranks, self._fingerprint = checkpoints, ranks, fingerprint

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._checkpoints.seal(
            self._ranks,
            state.global_step,
            best=state.best_global_step or state.global_step,
            fingerprint=self._fingerprint,
        )


class StopAtNonsense(TrainerCallback):
    """Ends a training whose loss or gradient is no number, before it is saved as a checkpoint."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **about: Any,
    ) -> None:
        logs: Mapping[str, float] = about["logs"]
        broken = [f"{name} is {value}" for name, value in logs.items() if not math.isfinite(value)]
        if not broken:
            return
        raise ToolformerError(
            f"step {state.global_step}: {', '.join(broken)}: "
            + (
                "the training is of no use from here, and its last checkpoint is from before; try "
                "a smaller learning_rate, or precision float32"
                if state.global_step
                else "the model is of no use as it is; try precision float32, or another model"
            )
        )
