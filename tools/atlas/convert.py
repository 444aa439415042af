"""From the files Meta publishes for Atlas to a directory that loads fast and runs no one's code."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from tools.atlas import saved, weights
from tools.atlas.formats import TEXT_MAXLENGTH
from tools.atlas.models import build_reader, build_retriever
from tools.atlas.original import (
    IndexShard,
    find_shards,
    load_checkpoint,
    open_embeddings,
    read_passages,
)
from tools.atlas.saved import AtlasMeta, IndexMeta
from tools.atlas.tokenization import load_bert_tokenizer, load_t5_tokenizer
from tools.atomic import sync
from tools.base import ConfigError, InputError, OutputError
from tools.wikisearch.saved import prepare_place

ROWS_PER_BATCH = 8192

# What is done just now, and how much of it is done, from 0 to 1.
Progress = Callable[[str, float], None]


def convert_atlas(
    *,
    checkpoint: Path,
    index: Path,
    reader_tokenizer: Path,
    retriever_vocab: Path,
    out: Path,
    trust_checkpoint: bool = False,
    num_attention_heads: int | None = None,
    progress: Progress = lambda what, done: None,
) -> AtlasMeta:
    """Write the new or empty directory `out` (see saved.py) and return its meta.json.

    It is written whole or not at all, by way of a temporary directory beside it; what a killed
    command left there is deleted by the next one. One weight or one index shard at a time is in
    memory.

    Args:
        checkpoint: model.pth.tar.
        index: a directory with passages.{i}.pt and embeddings.{i}.pt.
        reader_tokenizer: the spiece.model of T5.
        retriever_vocab: the vocab.txt of bert-base-uncased.
        trust_checkpoint: load a checkpoint that holds more than plain data, which can run code.
        num_attention_heads: of the retriever, when they are not of 64 dimensions.

    Raises:
        ConfigError: a file is not there, or `out` is there already.
        InputError: a file cannot be read, is torn, unsafe, or of another model than the others.
        OutputError: `out` cannot be written.
    """
    for path in (reader_tokenizer, retriever_vocab):
        with _reading(path):
            if not path.is_file():
                raise ConfigError(f"{path}: no such file")
    with _reading(index):
        shards = find_shards(index)
    with _new_directory(out) as directory:
        with _reading(checkpoint):
            content = load_checkpoint(checkpoint, trust=trust_checkpoint)
        reader = weights.reader_tensors(content.state)
        retriever = weights.retriever_tensors(content.state)
        progress("writing the reader", 0.0)
        _write_reader(directory / saved.READER, reader, reader_tokenizer)
        progress("writing the retriever", 0.0)
        _write_retriever(
            directory / saved.RETRIEVER, retriever, retriever_vocab, num_attention_heads
        )
        embedding_size = int(retriever["embeddings.word_embeddings.weight"].shape[1])
        index_meta = _write_index(directory / saved.INDEX, shards, embedding_size, progress)
        files = _hash_files(directory, progress)
        meta = AtlasMeta(
            step=content.step,
            reader_parameters=weights.num_parameters(reader),
            retriever_parameters=weights.num_parameters(retriever),
            num_passages=index_meta.num_passages,
            embedding_size=embedding_size,
            files=files,
            content_hash=saved.hash_all(files),
        )
        _write_json(directory / saved.META, meta.model_dump_json(indent=2))
    return meta


@contextmanager
def _new_directory(out: Path) -> Iterator[Path]:
    """A temporary directory that becomes `out` when the block ends without an error."""
    prepare_place(out)
    out = out.resolve()
    temporary = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        for name in ("", saved.READER, saved.RETRIEVER, saved.INDEX):
            (temporary / name).mkdir()
        yield temporary
        for path in [*sorted(temporary.rglob("*")), temporary]:
            sync(path)
        os.replace(temporary, out)
        sync(out.parent)
    except OSError as error:
        raise OutputError(f"{out}: cannot write: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """The block reads the input `path`, and writes nothing."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None


def _copy(source: Path, target: Path) -> None:
    with _reading(source):
        content = source.read_bytes()
    target.write_bytes(content)


def _write_reader(directory: Path, tensors: weights.Tensors, spiece: Path) -> None:
    config = weights.reader_config(tensors)
    weights.check_fits(build_reader(config), tensors, "reader")
    tokenizer = load_t5_tokenizer(spiece, max_length=TEXT_MAXLENGTH)
    _check_vocabulary(spiece, tokenizer.vocab_size, config["vocab_size"])
    _write_json(directory / saved.CONFIG, json.dumps(config, indent=2))
    _copy(spiece, directory / saved.SPIECE)
    weights.write_safetensors(directory / saved.WEIGHTS, tensors)


def _write_retriever(
    directory: Path, tensors: weights.Tensors, vocab: Path, num_attention_heads: int | None
) -> None:
    config = weights.retriever_config(tensors, num_attention_heads=num_attention_heads)
    weights.check_fits(build_retriever(config), tensors, "retriever")
    tokenizer = load_bert_tokenizer(vocab, max_length=TEXT_MAXLENGTH)
    _check_vocabulary(vocab, tokenizer.vocab_size, config["vocab_size"])
    _write_json(directory / saved.CONFIG, json.dumps(config, indent=2))
    _copy(vocab, directory / saved.VOCAB)
    weights.write_safetensors(directory / saved.WEIGHTS, tensors)


def _check_vocabulary(path: Path, num_tokens: int, num_embeddings: int) -> None:
    if num_tokens > num_embeddings:
        raise InputError(
            f"{path}: {num_tokens} tokens, but the model has {num_embeddings} embeddings; it is "
            "the vocabulary of another model"
        )


def _write_index(
    directory: Path, shards: list[IndexShard], embedding_size: int, progress: Progress
) -> IndexMeta:
    counts = [_num_embeddings(shard, embedding_size) for shard in shards]
    # Appended rather than written through a memory map, where a full disk ends the process.
    with (
        (directory / saved.EMBEDDINGS).open("wb") as stream,
        pa.ipc.new_file(str(directory / saved.PASSAGES), saved.PASSAGE_SCHEMA) as writer,
    ):
        header = {"descr": "<f2", "fortran_order": False, "shape": (sum(counts), embedding_size)}
        np.lib.format.write_array_header_1_0(stream, header)  # type: ignore[no-untyped-call,unused-ignore]
        for batch in _batches(_passages(shards, counts, progress)):
            writer.write_batch(batch)
        for number, shard in enumerate(shards):
            progress("writing the embeddings", number / len(shards))
            for rows_nd in _rows(shard.embeddings):
                stream.write(rows_nd.data)
    meta = IndexMeta(
        num_passages=sum(counts), embedding_size=embedding_size, rows_per_batch=ROWS_PER_BATCH
    )
    _write_json(directory / saved.META, meta.model_dump_json(indent=2))
    return meta


def _num_embeddings(shard: IndexShard, embedding_size: int) -> int:
    with _reading(shard.embeddings):
        size, count = open_embeddings(shard.embeddings).shape
    if size != embedding_size:
        raise InputError(
            f"{shard.embeddings}: the shape {size, count}, expected {embedding_size} rows: one "
            "column for each passage, in the size of the retriever"
        )
    return int(count)


def _passages(
    shards: list[IndexShard], counts: list[int], progress: Progress
) -> Iterator[tuple[str, str]]:
    for number, (shard, expected) in enumerate(zip(shards, counts, strict=True)):
        progress("writing the passages", number / len(shards))
        found = 0
        for found, passage in enumerate(read_passages(shard.passages), start=1):  # noqa: B007
            yield passage
        if found != expected:
            raise InputError(
                f"{shard.passages}: {found} passages, but {expected} embeddings in "
                f"{shard.embeddings.name}; they are of different indexes"
            )
    if not sum(counts):
        raise InputError(f"{shards[0].passages.parent}: no passage in {len(shards)} shards")


def _batches(passages: Iterator[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    while rows := list(islice(passages, ROWS_PER_BATCH)):
        titles, texts = zip(*rows, strict=True)
        yield pa.RecordBatch.from_pydict(
            {"title": titles, "text": texts}, schema=saved.PASSAGE_SCHEMA
        )


def _rows(path: Path) -> Iterator[np.ndarray]:
    """The embeddings of a shard, a few thousand rows [n, d] at a time."""
    with _reading(path):
        embeddings_dn = open_embeddings(path)
    for start in range(0, embeddings_dn.shape[1], ROWS_PER_BATCH):
        rows_nd = embeddings_dn[:, start : start + ROWS_PER_BATCH].to(torch.float16).T.contiguous()
        if not torch.isfinite(rows_nd).all():
            raise InputError(f"{path}: an embedding holds NaN or infinity in float16")
        yield rows_nd.numpy()


def _hash_files(directory: Path, progress: Progress) -> dict[str, saved.SavedFile]:
    files = {}
    for number, name in enumerate(saved.FILES):
        progress("hashing", number / len(saved.FILES))
        files[name] = saved.hash_file(directory / name)
    return files


def _write_json(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
