from pathlib import Path

import pytest
import torch

from tests.tools.atlas.tiny_atlas import (
    HIDDEN,
    PASSAGES,
    WORDS,
    Published,
    save_checkpoint,
    save_shards,
    small_state,
    train_spiece,
)
from tools.atlas.convert import convert_atlas


@pytest.fixture(scope="session")
def embeddings_nd() -> torch.Tensor:
    return torch.randn((len(PASSAGES), HIDDEN), generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory, embeddings_nd: torch.Tensor) -> Published:
    directory = tmp_path_factory.mktemp("published")
    files = Published(
        checkpoint=directory / "model.pth.tar",
        index=directory / "index",
        reader_tokenizer=directory / "spiece.model",
        retriever_vocab=directory / "vocab.txt",
    )
    save_checkpoint(files.checkpoint, small_state())
    save_shards(files.index, embeddings_nd, sizes=(90, 60, len(PASSAGES) - 150))
    train_spiece(files.reader_tokenizer)
    files.retriever_vocab.write_text("\n".join(WORDS) + "\n")
    return files


@pytest.fixture(scope="session")
def atlas(published: Published, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Atlas, converted."""
    out = tmp_path_factory.mktemp("converted") / "atlas"
    convert_atlas(
        checkpoint=published.checkpoint,
        index=published.index,
        reader_tokenizer=published.reader_tokenizer,
        retriever_vocab=published.retriever_vocab,
        out=out,
    )
    return out
