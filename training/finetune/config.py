"""The finetuning configuration: what a user writes in YAML. Defaults are the paper's.

Section 4.1 and Appendix B. Relative paths are relative to the directory the command is started in.
Unknown keys and wrong types are errors that name the key.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from pipeline.config import ModelConfig
from pipeline.settings import Section, read_settings
from tools.base import ConfigError
from tools.places import PlaceField

DatasetName = Literal["dataset", "dataset_plain"]


class DevelopmentConfig(Section):
    """Held-out plain documents whose perplexity is measured (Appendix B: 1,000 of CCNet)."""

    input: PlaceField  # DOCUMENTS Parquet: a file or a directory
    documents: int = Field(default=1000, ge=1)


class ZeroConfig(Section):
    """How DeepSpeed divides the states of the model (Appendix B: ZeRO-3)."""

    stage: Literal[0, 1, 2, 3] = 3
    offload_optimizer: bool = False  # the optimiser's states in the memory of the host
    offload_parameters: bool = False  # the parameters as well; stage 3 alone

    @model_validator(mode="after")
    def _only_stage_3_divides_parameters(self) -> "ZeroConfig":
        if self.offload_parameters and self.stage != 3:
            raise ValueError(f"offload_parameters needs stage 3, got stage {self.stage}")
        if self.offload_optimizer and self.stage == 0:
            raise ValueError("offload_optimizer needs stage 1, 2 or 3, got stage 0")
        return self


class FinetuneConfig(Section):
    """One finetuning of M on C* or on C."""

    run: PlaceField  # a run directory that was built
    out: Path  # checkpoints, logs and the finetuned model; the same directory on every host
    dataset: DatasetName = "dataset"  # C*; dataset_plain is C, for the baseline
    model: ModelConfig | None = None  # the run's M when not given
    development: DevelopmentConfig
    seed: int = 0

    max_examples: int = Field(default=25_000, ge=1)  # documents for each tool
    # Differs from the paper: where it is not 0, so large a share of the documents of C* is learned
    # without calls. In short documents most of the words after a call are else never learned
    # without one, and with calls disabled the model is the worse for it.
    plain_share: float = Field(default=0.0, ge=0.0, lt=1.0)
    sequence_tokens: int = Field(default=1024, ge=8)
    max_steps: int = Field(default=2000, ge=1)
    eval_steps: int = Field(default=500, ge=1)  # a checkpoint is written as often
    batch_size: int = Field(default=128, ge=1)  # sequences in a step, over all processes
    micro_batch_size: int = Field(default=8, ge=1)  # of them at once in one process
    learning_rate: float = Field(default=1e-5, gt=0.0)
    warmup_share: float = Field(default=0.1, ge=0.0, lt=1.0)  # of max_steps, linear
    weight_decay: float = Field(default=0.0, ge=0.0)
    max_grad_norm: float = Field(default=1.0, gt=0.0)

    precision: Literal["bfloat16", "float32"] = "bfloat16"
    gradient_checkpointing: bool = True
    zero: ZeroConfig = ZeroConfig()

    @model_validator(mode="after")
    def _batches_divide(self) -> "FinetuneConfig":
        if self.batch_size % self.micro_batch_size:
            raise ValueError(
                f"batch_size {self.batch_size} is no multiple of micro_batch_size "
                f"{self.micro_batch_size}"
            )
        return self

    def accumulation_steps(self, num_processes: int) -> int:
        """Micro-batches of one process in a step, so that the batch is the same for any number.

        Raises:
            ConfigError: num_processes * micro_batch_size does not divide batch_size.
        """
        at_once = num_processes * self.micro_batch_size
        if self.batch_size % at_once:
            raise ConfigError(
                f"batch_size {self.batch_size} is no multiple of {num_processes} processes x "
                f"micro_batch_size {self.micro_batch_size}"
            )
        return self.batch_size // at_once


def load_finetune_config(path: Path, **changes: Any) -> FinetuneConfig:
    """What the YAML file `path` says, with `changes` to its top level.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or wrong.
    """
    return read_settings(path, FinetuneConfig, {k: v for k, v in changes.items() if v is not None})
