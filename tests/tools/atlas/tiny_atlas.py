"""A tiny Atlas in the files Meta publishes: original names of weights, shards, bloated views."""

import argparse
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import BertConfig, BertModel

from tools.atlas.models import build_reader

D_MODEL = 32
HIDDEN = 24
TOPICS = ("river", "city", "poet", "mountain", "engine", "island", "king", "comet", "bridge")
PASSAGES = [
    {
        "id": str(number),
        "title": f"The {topic}: Part {number}" if number % 2 else f"The {topic}",
        "section": "",
        "text": f"The {topic} number {number} is near the {TOPICS[number % 4]} " * (1 + number % 5),
    }
    for number, topic in enumerate(TOPICS * 22)
]
WORDS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a is of question answer : ? . < > _ extra id 0 title part "
    "number near where who what ##s " + " ".join(TOPICS)
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What convert_atlas is given."""

    checkpoint: Path
    index: Path
    reader_tokenizer: Path
    retriever_vocab: Path


def small_state(*, untied: bool = False, seed: int = 0) -> dict[str, torch.Tensor]:
    """The weights of a reader and a retriever under the names of Atlas' checkpoints."""
    torch.manual_seed(seed)
    config = {
        "vocab_size": 260, "d_model": D_MODEL, "d_kv": 8, "d_ff": 48, "num_layers": 2,
        "num_decoder_layers": 3, "num_heads": 4, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False, "relative_attention_num_buckets": 16,
    }  # fmt: skip
    reader = build_reader(config).to_empty(device="cpu")
    state = {}
    for name, weight in reader.state_dict().items():
        # Large enough that answers differ from question to question.
        scale = 1.0 if weight.dim() == 1 else 0.35
        offset = 1.0 if weight.dim() == 1 else 0.0
        state[f"reader.{name}"] = torch.randn(weight.shape) * scale * 0.5 + offset
    for stack in ("encoder", "decoder"):
        state[f"reader.{stack}.embed_tokens.weight"] = state["reader.shared.weight"]
    state["reader.decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = (
        torch.randn(16, 4)
    )
    for name in ("query_contriever", "passage_contriever") if untied else ("contriever",):
        retriever: torch.nn.Module = BertModel(  # type: ignore[no-untyped-call]
            BertConfig(
                vocab_size=64, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=1,
                intermediate_size=40, max_position_embeddings=48, initializer_range=0.3,
            ),
            add_pooling_layer=False,
        )  # fmt: skip
        for key, weight in retriever.state_dict().items():
            state[f"retriever.{name}.{key}"] = weight
        state[f"retriever.{name}.embeddings.position_ids"] = torch.arange(48)[None]
    return state


def save_checkpoint(path: Path, state: dict[str, Any], **opts: str) -> None:
    opt = argparse.Namespace(
        reader_model_type="google/t5-base-lm-adapt", device=torch.device("cpu"), n_context=40,
        **{"encoder_format": "{query} title: {title} context: {text}", **opts},
    )  # fmt: skip
    content = {"step": 4000, "model": state, "optimizer": None, "scheduler": {}, "opt": opt}
    torch.save(content, path)


def save_shards(directory: Path, embeddings_nd: torch.Tensor, sizes: tuple[int, ...]) -> None:
    directory.mkdir()
    # As the first Atlas did: every file carries the storage of the whole rank.
    whole_dn = embeddings_nd.half().T.contiguous()
    start = 0
    for number, size in enumerate(sizes):
        stop = start + size
        torch.save(whole_dn[:, start:stop], directory / f"embeddings.{number}.pt")
        with (directory / f"passages.{number}.pt").open("wb") as stream:
            pickle.dump(PASSAGES[start:stop], stream, protocol=pickle.HIGHEST_PROTOCOL)
        start = stop


def train_spiece(path: Path) -> None:
    model = io.BytesIO()
    texts = [str(p["title"]) + " " + str(p["text"]) for p in PASSAGES]
    texts += ["question: who answer: title: context: where is what was born?", "0123456789 abc xyz"]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=150, model_type="unigram",
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    path.write_bytes(model.getvalue())
