"""A small GPT-J that vLLM's attention supports, and copies of checkpoints with other weights."""

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPTJConfig, GPTJForCausalLM, PreTrainedTokenizerFast

from tests.pipeline.tiny_checkpoints import CONTEXT, END, VOCABULARY, byte_level_tokenizer


def save_vllm_checkpoint(directory: Path, *, num_layers: int = 2, context: int = CONTEXT) -> Path:
    """Heads of 32 dimensions, the fewest vLLM has CPU kernels for."""
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=byte_level_tokenizer(), bos_token=END, eos_token=END
    )
    tokenizer.save_pretrained(directory)
    torch.manual_seed(7)
    config = GPTJConfig(
        vocab_size=VOCABULARY, n_positions=context, n_embd=64, n_layer=num_layers, n_head=2,
        rotary_dim=8, tie_word_embeddings=False, initializer_range=0.2,
        bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model: Any = GPTJForCausalLM(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    return directory


def with_other_weights(checkpoint: Path, directory: Path) -> Path:
    """A copy of a checkpoint whose weights are others of the same size."""
    shutil.copytree(checkpoint, directory, dirs_exist_ok=True)
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    torch.manual_seed(8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * parameter.std(correction=0) * torch.randn_like(parameter))
    model.save_pretrained(directory)
    return directory
