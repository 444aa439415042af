"""A GPT-J of 120,000 weights with the demo's tokenizer: whole trainings of it take a second."""

import shutil
from pathlib import Path
from typing import Any

from tests.training.finetune.made_dataset import DEMO_MODEL, held_out, made_run


def small_model(directory: Path) -> Path:
    """The model, saved in `directory` with random weights, the same every time."""
    import torch
    from transformers import AutoModelForCausalLM, GPTJConfig

    torch.manual_seed(0)
    config = GPTJConfig(
        vocab_size=1536,
        n_positions=128,
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
        bos_token_id=0,
        eos_token_id=0,
        initializer_range=0.2,
        tie_word_embeddings=False,
    )
    factory: Any = AutoModelForCausalLM
    factory.from_config(config).save_pretrained(directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(DEMO_MODEL / name, directory)
    return directory


def small_training(directory: Path, *, development: int) -> dict[str, Any]:
    """A training of the small model as a user writes it, all of it in `directory`.

    On fourteen documents, measured on `development`, in float32, with a learning rate at which its
    random weights learn.
    """
    return {
        "run": str(made_run(directory / "run", 14)),
        "model": {"path": str(small_model(directory / "model"))},
        "development": {"input": str(held_out(directory, development)), "documents": development},
        "learning_rate": 0.01,
        "precision": "float32",
    }
