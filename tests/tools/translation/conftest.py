"""A tiny NLLB checkpoint with random weights in the file layout of the published one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

SENTENCES = [
    "O homem suprimido",
    "der klassische jüdische Mann und die Frau",
    "la sûreté nucléaire en France",
    "nuclear safety, the suppressed man and the classic Jewish man",
    "Это описание одного из районов города",
    "南京高淳县住房和城乡建设局 城市新区设计",
]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tokenizer.json with all language codes, tokenizer_config.json, config.json, safetensors."""
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    directory = tmp_path_factory.mktemp("nllb")
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(directory)
    _model(len(tokenizer)).save_pretrained(directory)
    return directory


def _tokenizer() -> NllbTokenizer:
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    trained.train_from_iterator(SENTENCES, trainer)
    bpe = json.loads(trained.to_str())["model"]
    merges: Any = [tuple(pair) for pair in bpe["merges"]]
    return NllbTokenizer(vocab=bpe["vocab"], merges=merges)


def _model(vocab_size: int) -> M2M100ForConditionalGeneration:
    """Weights that say much of the source and little of the last token, so that outputs differ."""
    torch.manual_seed(1)
    config = M2M100Config(
        vocab_size=vocab_size, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, max_position_embeddings=1024, init_std=0.1,
    )  # fmt: skip
    model = M2M100ForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.model.decoder.named_parameters():
            if name.endswith(("out_proj.weight", "fc2.weight")):
                parameter.mul_(48)
        model.model.decoder.layer_norm.weight.mul_(0.5)
    return model
