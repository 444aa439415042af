"""A small Atlas: reader and retriever trained on the invented world, and an index to search.

The models are written as Meta published theirs and then go through the converter that the
published ones go through, so that nothing of the demo is special to it.
"""

import argparse
import logging
import pickle
import random
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import BertModel, set_seed

from tools.atlas import saved
from tools.atlas.convert import convert_atlas
from tools.atlas.formats import QUERY, READER_ROW, query_of, reader_row
from tools.atlas.models import UntiedT5, build_retriever, load_model
from tools.atlas.tokenization import load_bert_tokenizer, load_t5_tokenizer
from training.tool_models.asked import draw_library
from training.tool_models.card import write_atlas_card
from training.tool_models.loop import train
from training.tool_models.passages import Passage, read_encyclopedia
from training.tool_models.reader import FiD, new_reader, reader_batches
from training.tool_models.retriever import (
    RETRIEVER_FORMAT,
    DualEncoder,
    embed,
    new_retriever,
    passage_text,
    retriever_batches,
)
from training.tool_models.tokenizers import write_spiece, write_wordpiece

log = logging.getLogger(__name__)

MAX_LENGTH = 512  # tokens of a row or a query
_TOKENIZER_WORLDS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class AtlasSettings:
    """The defaults are those of the committed models."""

    seed: int = 0
    reader_steps: int = 1200
    reader_learning_rate: float = 1.5e-3
    retriever_steps: int = 500
    retriever_learning_rate: float = 1e-3
    threads: int = 1


def train_atlas(out: Path, encyclopedia: Path, settings: AtlasSettings) -> None:
    """Trains retriever and reader and writes both, with an index of `encyclopedia`, to `out`."""
    passages = read_encyclopedia(encyclopedia)
    torch.set_num_threads(settings.threads)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        write_tokenizers(scratch, settings.seed)
        retriever = _train_retriever(scratch, settings)
        reader = _train_reader(scratch, settings)
        _write_converted(
            out,
            scratch,
            reader.state_dict(),
            retriever.half().float(),  # type: ignore[no-untyped-call]
            passages,
            settings.reader_steps,
        )
    write_atlas_card(
        out,
        reader=reader.num_parameters(),
        retriever=retriever.num_parameters(),
        settings=settings,
    )


def write_tokenizers(folder: Path, seed: int) -> None:
    """spiece.model and vocab.txt, from passages and questions of training worlds."""
    rng = random.Random(f"atlas tokenizers {seed}")
    rows, queries = [], []
    for _ in range(_TOKENIZER_WORLDS):
        library = draw_library(rng)
        # Without the sentinel, which is T5's own token and no text.
        rows += [
            reader_row("", title=each["title"], text=each["text"]) for each in library.passages
        ]
        rows += [query_of(each.question).replace("<extra_id_0>", "") for each in library.asked]
        queries += [passage_text(each) for each in library.passages]
        queries += [query_of(each.question) for each in library.asked]
    write_spiece(rows, folder / saved.SPIECE)
    write_wordpiece(queries, folder / saved.VOCAB)


def _train_retriever(scratch: Path, settings: AtlasSettings) -> BertModel:
    tokenizer = load_bert_tokenizer(scratch / saved.VOCAB, max_length=MAX_LENGTH)
    batches = list(retriever_batches(tokenizer, steps=settings.retriever_steps, seed=settings.seed))
    set_seed(settings.seed)
    retriever = new_retriever(tokenizer.vocab_size)
    log.info("retriever: %d steps, %d parameters", len(batches), retriever.num_parameters())
    train(
        DualEncoder(retriever),
        batches,
        learning_rate=settings.retriever_learning_rate,
        seed=settings.seed,
        scratch=scratch,
    )
    return retriever


def _train_reader(scratch: Path, settings: AtlasSettings) -> UntiedT5:
    tokenizer = load_t5_tokenizer(scratch / saved.SPIECE, max_length=MAX_LENGTH)
    batches = list(reader_batches(tokenizer, steps=settings.reader_steps, seed=settings.seed))
    set_seed(settings.seed)
    reader = new_reader(tokenizer.vocab_size)
    log.info("reader: %d steps, %d parameters", len(batches), reader.num_parameters())
    train(
        FiD(reader),
        batches,
        learning_rate=settings.reader_learning_rate,
        seed=settings.seed,
        scratch=scratch,
        bf16=True,  # a quarter less time where the processor multiplies it
    )
    return reader


def rebuild_index(atlas: Path, encyclopedia: Path) -> int:
    """The number of passages of `encyclopedia`, now indexed in `atlas` with its own retriever.

    Raises:
        ConfigError: there is no Atlas.
        InputError: it is not whole, or the encyclopedia cannot be read.
    """
    passages = read_encyclopedia(encyclopedia)
    step = saved.open_meta(atlas).step
    directory = atlas / saved.RETRIEVER
    retriever = load_model(
        build_retriever, directory, dtype=torch.float32, device=torch.device("cpu")
    )
    reader = load_file(atlas / saved.READER / saved.WEIGHTS)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        for path in (atlas / saved.READER / saved.SPIECE, directory / saved.VOCAB):
            shutil.copyfile(path, scratch / path.name)
        _write_converted(atlas, scratch, reader, retriever, passages, step)
    return len(passages)


def _write_converted(
    out: Path,
    scratch: Path,
    reader: Mapping[str, Tensor],
    retriever: nn.Module,
    passages: list[Passage],
    step: int,
) -> None:
    """Writes Meta's files to `scratch`, beside the tokenizers, and what they convert to to `out`.

    All weights are written in float16; `retriever` already has values that float16 holds.
    """
    state = {f"reader.{name}": tensor.half() for name, tensor in reader.items()} | {
        f"retriever.contriever.{name}": tensor.half()
        for name, tensor in retriever.state_dict().items()
    }
    opt = argparse.Namespace(
        qa_prompt_format=QUERY,
        encoder_format=READER_ROW,
        retriever_format=RETRIEVER_FORMAT,
        text_maxlength=MAX_LENGTH,
    )
    torch.save({"step": step, "model": state, "opt": opt}, scratch / "model.pth.tar")
    tokenizer = load_bert_tokenizer(scratch / saved.VOCAB, max_length=MAX_LENGTH)
    embeddings_ND = embed(retriever, tokenizer, [passage_text(each) for each in passages])
    index = scratch / "meta_index"
    index.mkdir()
    (index / "passages.0.pt").write_bytes(pickle.dumps(passages))
    torch.save(embeddings_ND.T.half().contiguous(), index / "embeddings.0.pt")
    convert_atlas(
        checkpoint=scratch / "model.pth.tar",
        index=index,
        reader_tokenizer=scratch / saved.SPIECE,
        retriever_vocab=scratch / saved.VOCAB,
        out=scratch / "converted",
    )
    out.mkdir(parents=True, exist_ok=True)
    for path in (scratch / "converted").iterdir():
        old = out / path.name
        if old.is_dir():
            shutil.rmtree(old)
        shutil.move(path, old)
