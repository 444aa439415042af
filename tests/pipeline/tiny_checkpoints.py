"""Checkpoints of a few thousand random weights in the real file layout, with their tokenizers."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    GPT2Config,
    GPTJConfig,
    GPTNeoXConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.auto import AutoModelForCausalLM

END = "<|endoftext|>"
CONTEXT = 96
VOCABULARY = 320  # more rows than the tokenizer has tokens, as in GPT-J
_SENTENCES = [
    "Out of 1400 participants, 400 (or [Calculator(400 / 1400) -> 0.29] 29%) passed the test.",
    'The city of Bologna [WikiSearch("Bologna") -> Bologna > History] lies in the north.',
    "Today is the first Friday [Calendar() -> Today is Friday] of the year (see [1]).",
    'a [b] c [d] e [f] (x) [y] z [QA("Who?")] and so on, "quoted")] at the end.',
]


def byte_level_tokenizer(num_tokens: int = 310) -> Tokenizer:
    """GPT-2's kind of tokenizer, trained on a few sentences, with " [" as one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=num_tokens,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES * 4, trainer)
    return tokenizer


def llama2_tokenizer() -> Tokenizer:
    """Llama 2's kind of tokenizer: a dummy space first, spaces as "▁", bytes as <0xNN>."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    words = [word for line in _SENTENCES for word in line.replace(" ", " ▁").split(" ")]
    tokenizer.train_from_iterator(words * 4, trainer)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


def save_checkpoint(
    directory: Path, architecture: str, *, seed: int = 7, context: int = CONTEXT
) -> Path:
    """config.json, model.safetensors and tokenizer of a random model in `directory`."""
    torch.manual_seed(seed)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=byte_level_tokenizer(), bos_token=END, eos_token=END
    )
    tokenizer.save_pretrained(directory)
    config = _config(architecture, tokenizer.eos_token_id, context)
    model = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    model.save_pretrained(directory)
    return directory


def _config(architecture: str, end_id: int, context: int) -> PreTrainedConfig:
    # Weights far larger than usual: peaked distributions, so that a wrong number is far off.
    ends: dict[str, Any] = {
        "bos_token_id": end_id,
        "eos_token_id": end_id,
        "initializer_range": 0.2,
    }
    if architecture == "gptj":
        return GPTJConfig(
            vocab_size=VOCABULARY, n_positions=context, n_embd=32, n_layer=2, n_head=4,
            rotary_dim=4, tie_word_embeddings=False, **ends,
        )  # fmt: skip
    if architecture == "gpt2":
        return GPT2Config(
            vocab_size=VOCABULARY, n_positions=context, n_embd=32, n_layer=2, n_head=4, **ends
        )
    if architecture == "gpt_neox":  # one that has no packed form
        return GPTNeoXConfig(
            vocab_size=VOCABULARY, max_position_embeddings=context, hidden_size=32,
            intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            tie_word_embeddings=False, **ends,
        )  # fmt: skip
    assert architecture == "llama"
    return LlamaConfig(
        vocab_size=VOCABULARY, max_position_embeddings=context, hidden_size=32,
        intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        **ends,
    )  # fmt: skip
