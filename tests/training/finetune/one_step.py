"""A finetuning of one step of the made dataset, as a user writes it."""

from pathlib import Path

import yaml

from tests.training.finetune.made_dataset import held_out, made_run


def one_step_config(directory: Path) -> Path:
    """Its configuration, in `directory`, as are the run and what comes of it, in `out`."""
    path = directory / "finetune.yaml"
    settings = {
        "run": str(made_run(directory / "run", 12)),
        "out": str(directory / "out"),
        "development": {"input": str(held_out(directory, 4)), "documents": 4},
        "sequence_tokens": 64,
        "max_steps": 1,
        "eval_steps": 1,
        "batch_size": 4,
        "micro_batch_size": 2,
        "precision": "float32",
        "gradient_checkpointing": False,
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path
