"""finetune.json: what a finished finetuning was, and what came of it. Written last."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.atomic import write_text_atomically
from training.finetune.config import FinetuneConfig

RECORD = "finetune.json"


class Evaluation(BaseModel):
    """A measurement on the development set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int  # after so many; 0 is the model before
    loss: float  # nats, the mean over all tokens
    perplexity: float


class Data(BaseModel):
    """What was trained and measured on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents: int
    examples: int  # windows of documents
    trained_tokens: int  # of these
    calls: Mapping[str, int]  # by tool
    dropped: Mapping[str, int]  # by reason
    development_documents: int
    development_excluded: int  # of its input, because they are trained on
    development_unusable: int  # likewise, because `annotate` would not take them either


class FinetuneRecord(BaseModel):
    """A finished finetuning."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: FinetuneConfig
    base_model: str
    fingerprint: dict[str, Any]
    num_processes: int
    data: Data
    evaluations: list[Evaluation]
    losses: list[tuple[int, float]]  # (step, nats): the mean over the step's trained tokens
    best_step: int  # whose weights are in model/
    versions: dict[str, str]

    @property
    def before(self) -> Evaluation:
        return self.evaluations[0]

    @property
    def best(self) -> Evaluation:
        return next(each for each in self.evaluations if each.step == self.best_step)

    @property
    def last(self) -> Evaluation:
        return self.evaluations[-1]


def read_record(out: Path) -> FinetuneRecord | None:
    """The record of the finetuning in `out`; None where none has finished."""
    try:
        return FinetuneRecord.model_validate_json((out / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def write_record(out: Path, record: FinetuneRecord) -> None:
    """Raises OutputError where it cannot be written."""
    write_text_atomically(out / RECORD, record.model_dump_json(indent=1) + "\n")
