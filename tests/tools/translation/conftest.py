"""A tiny NLLB checkpoint and tiny fastText classifiers in the layouts of the published files."""

import json
import struct
from collections.abc import Callable
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


@pytest.fixture
def write_classifier(tmp_path: Path) -> Callable[[dict[str, list[str]]], Path]:
    """Writes a fastText model in which a word speaks for the label it is listed under."""

    def write(words_of: dict[str, list[str]]) -> Path:
        path = tmp_path / "classifier.bin"
        path.write_bytes(_fasttext_model(words_of))
        return path

    return write


def _fasttext_model(words_of: dict[str, list[str]]) -> bytes:
    """Version 12: softmax of the mean of the word vectors, which are 20 times a unit vector."""
    labels = list(words_of)
    words = [("</s>", -1)]
    words += [(word, index) for index, label in enumerate(labels) for word in words_of[label]]
    # dim, ws, epoch, minCount, neg, wordNgrams, loss = softmax, model = supervised, bucket, minn,
    # maxn, lrUpdateRate, t
    arguments = struct.pack("<12id", len(labels), 5, 1, 1, 5, 1, 3, 3, 0, 0, 0, 100, 1e-4)
    entries = [word.encode() + struct.pack("<xqb", 1, 0) for word, _ in words]
    entries += [f"__label__{label}".encode() + struct.pack("<xqb", 1, 1) for label in labels]
    sizes = struct.pack("<3i2q", len(entries), len(words), len(labels), len(entries), -1)
    inputs = [[20.0 * (column == index) for column in range(len(labels))] for _, index in words]
    outputs = [
        [float(row == column) for column in range(len(labels))] for row in range(len(labels))
    ]
    return b"".join(
        [
            struct.pack("<2i", 793712314, 12),
            arguments,
            sizes,
            *entries,
            *map(_matrix, (inputs, outputs)),
        ]
    )


def _matrix(rows: list[list[float]]) -> bytes:
    values = [value for row in rows for value in row]
    return struct.pack(f"<?2q{len(values)}f", False, len(rows), len(rows[0]), *values)


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
