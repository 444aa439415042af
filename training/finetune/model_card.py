"""The README.md of a finetuned model: what it is, what it was trained on, how well it predicts."""

from pathlib import Path
from typing import Any

import yaml

from pipeline.markdown import markdown_template
from training.finetune.record import FinetuneRecord

_TEMPLATE = Path(__file__).with_name("model_card.md.j2")
# Paths of this machine, and how the work was divided, are nobody else's business.
_PRIVATE = {"run", "out", "model", "development", "micro_batch_size", "gradient_checkpointing"}


def model_card(record: FinetuneRecord) -> str:
    """The card of the model in `record.config.out`; it names no path of this machine."""
    config = record.config
    with_calls = config.dataset == "dataset"
    base_model = public_name(record.base_model)
    return markdown_template(_TEMPLATE).render(
        metadata=yaml.safe_dump(_metadata(record.base_model, with_calls), sort_keys=False),
        name=f"{base_model.split('/')[-1]}, finetuned on {'C*' if with_calls else 'C'}",
        base_model=base_model,
        with_calls=with_calls,
        record=record,
        data=record.data,
        config=config,
        settings=yaml.safe_dump(config.model_dump(mode="json", exclude=_PRIVATE), sort_keys=False),
    )


def public_name(model: str) -> str:
    """A name on the Hub as it is, of a directory its last part."""
    return Path(model).name if Path(model).is_absolute() else model


def _metadata(base_model: str, with_calls: bool) -> dict[str, Any]:
    """The front matter that the Hub reads."""
    on_hub = {} if Path(base_model).is_absolute() else {"base_model": base_model}
    return on_hub | {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["toolformer", "tool-use"] if with_calls else ["toolformer"],
    }
